"""Client quotas in the tree: settings of users, of client ids, of clients of users and of addresses, in Kafka's nodes.

    /config/users/U    /config/users/U/clients/C    /config/clients/C    /config/ips/I

`<default>` stands for every name that has no node. Names are encoded as Java encodes them for URLs.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from tidelog.metadata import paths
from tidelog.metadata.configs import (
    Alteration,
    AlterOperation,
    ConfigEntity,
    Validator,
    alter_overrides,
    read_overrides,
)
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.store import Store
from tidelog.metadata.users import node_name
from tidelog.metadata.walk import ensure_paths


class QuotaNode(NamedTuple):
    """Whose settings: None where a part does not matter, `<default>` for all names without a node."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def entity(self) -> ConfigEntity:
        if self.ip is not None:
            return ConfigEntity("ips", _encoded(self.ip))
        if self.user is None:
            assert self.client_id is not None, "a quota has a user, a client id or an address"
            return ConfigEntity("clients", _encoded(self.client_id))
        if self.client_id is None:
            return ConfigEntity("users", _encoded(self.user))
        return ConfigEntity("users", f"{_encoded(self.user)}/clients/{_encoded(self.client_id)}")

    @classmethod
    def at(cls, entity_path: str) -> "QuotaNode | None":
        """The node of an entity such as `users/U/clients/C`; None for entities that have no quotas."""
        match entity_path.split("/"):
            case ["users", user]:
                return cls(user=_decoded(user))
            case ["users", user, "clients", client_id]:
                return cls(user=_decoded(user), client_id=_decoded(client_id))
            case ["clients", client_id]:
                return cls(client_id=_decoded(client_id))
            case ["ips", ip]:
                return cls(ip=_decoded(ip))
        return None


def _encoded(name: str) -> str:
    return name if name == paths.DEFAULT_ENTITY else node_name(name)


def _decoded(node: str) -> str:
    return node if node == paths.DEFAULT_ENTITY else unquote(node)


def read_quota_nodes(store: Store) -> Iterator[tuple[QuotaNode, dict[str, str]]]:
    """Every entity that may have quotas, with all its settings."""
    entities = [f"{kind}/{name}" for kind in ("users", "clients", "ips") for name in _children(store, kind)]
    entities += [
        f"{user}/clients/{name}"
        for user in entities
        if user.startswith("users/")
        for name in _children(store, f"{user}/clients")
    ]
    for path in entities:
        node = QuotaNode.at(path)
        if node is not None:
            yield node, read_overrides(store, node.entity)


def _children(store: Store, path: str) -> list[str]:
    try:
        return store.children(f"{paths.CONFIG}/{path}")
    except NoNodeError:
        return []


def alter_quotas(
    store: Store, node: QuotaNode, changes: Mapping[str, str | None], validate: Validator, *, validate_only: bool
) -> None:
    """Set quotas of an entity, or remove those whose value is None; its other settings stay as they are."""
    entity = node.entity
    if not validate_only:
        ensure_paths(store, [entity.path.rpartition("/")[0]])
    alterations = [
        Alteration(AlterOperation.DELETE if value is None else AlterOperation.SET, name, value)
        for name, value in changes.items()
    ]
    alter_overrides(store, entity, alterations, lambda _name: None, validate, validate_only=validate_only)
