"""Access control entries in the tree: a node for each resource with entries, and nodes that announce changes.

Kafka has two trees: `/kafka-acl` for literal patterns, from its first days, and `/kafka-acl-extended/prefixed`. A node
without entries is removed. A change is written against the version that was read, then announced.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from tidelog.metadata import paths
from tidelog.metadata._json import Document, encode_json
from tidelog.metadata.changes import Announcements
from tidelog.metadata.errors import BadVersionError, MalformedNodeError, NodeExistsError, NoNodeError
from tidelog.metadata.store import Store
from tidelog.metadata.walk import ensure_paths
from tidelog.security.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)

Entries: TypeAlias = tuple[AccessControlEntry, ...]

_VERSION: Final = 1


def _camel_case(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


_TYPES: Final[Mapping[str, AclResourceType]] = {
    _camel_case(each.name): each for each in AclResourceType if each is not AclResourceType.ANY
}
_TYPE_NAMES: Final = {each: name for name, each in _TYPES.items()}
_OPERATIONS: Final[Mapping[str, AclOperation]] = {_camel_case(each.name): each for each in AclOperation}
_PERMISSIONS: Final[Mapping[str, AclPermissionType]] = {_camel_case(each.name): each for each in AclPermissionType}
_ROOTS: Final[Mapping[PatternType, str]] = {
    PatternType.LITERAL: paths.ACLS,
    PatternType.PREFIXED: f"{paths.EXTENDED_ACLS}/prefixed",
}


def prepare_acl_nodes(store: Store) -> None:
    """Make the nodes that entries and announcements stand under."""
    ensure_paths(
        store,
        [
            paths.ACL_CHANGES,
            paths.EXTENDED_ACL_CHANGES,
            *(f"{root}/{name}" for root in _ROOTS.values() for name in _TYPES),
        ],
    )


def resource_path(resource: ResourcePattern) -> str:
    return f"{_ROOTS[resource.pattern]}/{_TYPE_NAMES[resource.type]}/{resource.name}"


def all_entries(store: Store) -> Iterator[tuple[ResourcePattern, Entries]]:
    """Every resource with its entries. A node that cannot be read raises: nothing may be open by accident."""
    resources = [
        ResourcePattern(resource_type, name, pattern)
        for pattern, root in _ROOTS.items()
        for type_name, resource_type in _TYPES.items()
        for name in store.children(f"{root}/{type_name}")
    ]
    for resource, node in zip(resources, store.get_many([resource_path(each) for each in resources]), strict=True):
        if node is not None:
            yield resource, decode_entries(resource_path(resource), node[0])


def read_entries(store: Store, resource: ResourcePattern) -> Entries:
    """The entries of a resource; none for one that has no node."""
    return _read(store, resource)[0]


def change_entries(
    store: Store, resource: ResourcePattern, change: Callable[[Entries], Iterable[AccessControlEntry]]
) -> Entries:
    """Replace the entries of a resource by what `change` makes of them, and announce it. Returns what they are now.

    `change` is called again if another broker was faster.
    """
    path = resource_path(resource)
    while True:
        before, version = _read(store, resource)
        after = tuple(dict.fromkeys(change(before)))
        if after == before:
            return after
        try:
            if version is None:
                store.create(path, encode_entries(after))
            elif after:
                store.set(path, encode_entries(after), version)
            else:
                store.delete(path, version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            continue
        _announce(store, resource)
        return after


def _read(store: Store, resource: ResourcePattern) -> tuple[Entries, int | None]:
    path = resource_path(resource)
    try:
        data, stat = store.get(path)
    except NoNodeError:
        return (), None
    return decode_entries(path, data), stat.version


def encode_entries(entries: Iterable[AccessControlEntry]) -> bytes:
    return encode_json(
        {
            "version": _VERSION,
            "acls": [
                {
                    "principal": entry.principal,
                    "permissionType": _camel_case(entry.permission.name),
                    "operation": _camel_case(entry.operation.name),
                    "host": entry.host,
                }
                for entry in entries
            ],
        }
    )


def decode_entries(path: str, data: bytes) -> Entries:
    if not data:
        return ()
    document = Document(path, data)
    return tuple(_decode_entry(path, each) for each in document.required("acls", list))


def _decode_entry(path: str, fields: object) -> AccessControlEntry:
    if not isinstance(fields, dict):
        raise MalformedNodeError(path, f"malformed node: an ACL is a JSON object, not {fields!r}")
    document = Document.of(path, fields)
    operation, permission = document.required("operation", str), document.required("permissionType", str)
    if operation not in _OPERATIONS or permission not in _PERMISSIONS:
        raise document.malformed(f"an ACL is to {permission!r} the operation {operation!r}")
    return AccessControlEntry(
        document.required("principal", str),
        document.required("host", str),
        _OPERATIONS[operation],
        _PERMISSIONS[permission],
    )


# --- announcements ---


def _announce(store: Store, resource: ResourcePattern) -> None:
    if resource.pattern is PatternType.LITERAL:
        data = f"{resource.type.name}:{resource.name}".encode()
        store.create(f"{paths.ACL_CHANGES}/{paths.ACL_CHANGE_PREFIX}", data, sequential=True)
        return
    data = encode_json(
        {
            "version": _VERSION,
            "resourceType": resource.type.name,
            "name": resource.name,
            "patternType": resource.pattern.name,
        }
    )
    store.create(f"{paths.EXTENDED_ACL_CHANGES}/{paths.ACL_CHANGE_PREFIX}", data, sequential=True)


def _decode_literal_change(path: str, data: bytes) -> ResourcePattern:
    """Types have the protocol's names here, `TRANSACTIONAL_ID`; the nodes of entries have others, `TransactionalId`."""
    type_name, colon, name = data.decode(errors="replace").partition(":")
    resource_type = AclResourceType.__members__.get(type_name.upper()) or _TYPES.get(type_name)
    if not colon or resource_type is None:
        raise MalformedNodeError(path, f"malformed node: {data[:80]!r} names no resource")
    return ResourcePattern(resource_type, name)


def _decode_extended_change(path: str, data: bytes) -> ResourcePattern:
    document = Document(path, data)
    type_name, pattern = document.required("resourceType", str), document.required("patternType", str)
    if type_name not in AclResourceType.__members__ or pattern not in PatternType.__members__:
        raise document.malformed(f"{type_name!r} and {pattern!r} name no resource")
    return ResourcePattern(AclResourceType[type_name], document.required("name", str), PatternType[pattern])


LITERAL_CHANGES: Final = Announcements(paths.ACL_CHANGES, paths.ACL_CHANGE_PREFIX, _decode_literal_change)
EXTENDED_CHANGES: Final = Announcements(paths.EXTENDED_ACL_CHANGES, paths.ACL_CHANGE_PREFIX, _decode_extended_change)
