"""Settings made at runtime: the overrides of topics, brokers, clients and users, and notices of their changes.

Behind DescribeConfigs, AlterConfigs and IncrementalAlterConfigs. `tidelog.config` knows which settings exist and which
values are valid; the caller passes its checks in as functions.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias

from tidelog.metadata import paths
from tidelog.metadata.changes import Announcements
from tidelog.metadata.errors import BadVersionError, NodeExistsError, NoNodeError
from tidelog.metadata.store import Create, Operation, Set, Store
from tidelog.metadata.tree import decode_config, decode_config_change, encode_config, encode_config_change
from tidelog.metadata.walk import create_if_missing
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.primitives import STRING_BYTES_MAX

Validator: TypeAlias = Callable[[Mapping[str, str]], object]
"""Raises if the overrides cannot be used together; what it raises is passed on."""

ListValue: TypeAlias = Callable[[str], str | None]
"""The value that holds without an override, if the setting is a comma-separated list; else None."""


class OverridesCodec(Protocol):
    """How some overrides are kept in the tree: passwords are encrypted there."""

    def decode(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """What the tree holds, in clear."""

    def encode(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """What the tree is to hold."""


CONFIG_CHANGES: Final = Announcements(paths.CONFIG_CHANGES, paths.CONFIG_CHANGE_PREFIX, decode_config_change)
"""Each names an entity: `topics/T`, `brokers/<default>`, …."""


class ConfigEntity(NamedTuple):
    """Whose settings: `kind` is one of `paths.CONFIG_TYPES`, `name` as it stands in the tree."""

    kind: str
    name: str

    @property
    def path(self) -> str:
        return paths.config(self.kind, self.name)


class AlterOperation(IntEnum):
    """What IncrementalAlterConfigs may do to a setting, by its number on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Alteration(NamedTuple):
    operation: int
    name: str
    value: str | None


def read_overrides(store: Store, entity: ConfigEntity) -> dict[str, str]:
    """What was set for an entity; nothing for one that has no node."""
    return _read(store, entity)[0]


def replace_overrides(
    store: Store,
    entity: ConfigEntity,
    overrides: Mapping[str, str],
    validate: Validator,
    *,
    validate_only: bool = False,
    codec: OverridesCodec | None = None,
) -> dict[str, str]:
    """Replace all overrides of the entity. A setting that is not in `overrides` returns to its default."""
    return _change(store, entity, lambda _: dict(overrides), validate, validate_only, codec)


def alter_overrides(
    store: Store,
    entity: ConfigEntity,
    alterations: Sequence[Alteration],
    list_value: ListValue,
    validate: Validator,
    *,
    validate_only: bool = False,
    codec: OverridesCodec | None = None,
) -> dict[str, str]:
    """Change some of the entity's overrides and leave the others alone. Returns all of them."""
    return _change(
        store, entity, lambda before: apply_alterations(before, alterations, list_value), validate, validate_only, codec
    )


def apply_alterations(
    overrides: Mapping[str, str], alterations: Sequence[Alteration], list_value: ListValue
) -> dict[str, str]:
    """The overrides after the alterations."""
    counts = Counter(alteration.name for alteration in alterations)
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Error due to duplicate config keys : {','.join(repeated)}")
    altered = dict(overrides)
    for operation, name, value in alterations:
        if operation not in AlterOperation.__members__.values():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {operation} for config key: {name}")
        if operation == AlterOperation.DELETE:
            altered.pop(name, None)
        elif value is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        elif operation == AlterOperation.SET:
            altered[name] = value
        else:
            altered[name] = _alter_list(altered, AlterOperation(operation), name, value, list_value)
    return altered


def _alter_list(
    overrides: Mapping[str, str], operation: AlterOperation, name: str, value: str, list_value: ListValue
) -> str:
    default = list_value(name)
    if default is None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Config value {operation.name.lower()} is not allowed for config key: {name}"
        )
    before = _split(overrides.get(name, default))
    given = _split(value)
    if operation is AlterOperation.SUBTRACT:
        removed = set(given)
        return ",".join(item for item in before if item not in removed)
    there = set(before)
    altered = ",".join([*before, *(item for item in given if item not in there)])
    if len(altered.encode()) > STRING_BYTES_MAX:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{name} would have {len(altered.encode())} bytes, more than the {STRING_BYTES_MAX} of a string",
        )
    return altered


def _split(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _read(store: Store, entity: ConfigEntity) -> tuple[dict[str, str], int | None]:
    try:
        data, stat = store.get(entity.path)
    except NoNodeError:
        return {}, None
    return decode_config(entity.kind, entity.name, data), stat.version


def _change(
    store: Store,
    entity: ConfigEntity,
    change: Callable[[dict[str, str]], dict[str, str]],
    validate: Validator,
    validate_only: bool,
    codec: OverridesCodec | None,
) -> dict[str, str]:
    while True:
        before, version = _read(store, entity)
        after = change(before if codec is None else codec.decode(before))
        validate(after)
        if validate_only:
            return after
        data = encode_config(after if codec is None else codec.encode(after))
        if version is None:
            # Kinds that Kafka's ZooKeeper mode does not have are made with their first entity.
            create_if_missing(store, f"{paths.CONFIG}/{entity.kind}")
        write: Operation = Create(entity.path, data) if version is None else Set(entity.path, data, version)
        # The notice is written in the change's transaction, so that no broker misses it or reads too early.
        notice = Create(
            f"{paths.CONFIG_CHANGES}/{paths.CONFIG_CHANGE_PREFIX}",
            encode_config_change(f"{entity.kind}/{entity.name}"),
            sequential=True,
        )
        try:
            store.multi([write, notice])
        except (BadVersionError, NodeExistsError):
            continue  # another broker changed the same entity: on top of what it wrote, then
        return after
