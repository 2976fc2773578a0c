"""Users in the tree: `/config/users/<name>`, whose settings are quotas and SCRAM credentials, as in Kafka."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote

from tidelog.metadata import paths
from tidelog.metadata.configs import Alteration, AlterOperation, ConfigEntity, alter_overrides, read_overrides
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.store import Store

KIND: Final = "users"


def node_name(name: str) -> str:
    """A user's, client's or address's name as the name of a node: Kafka encodes it as Java does for URLs."""
    return quote(name, safe=".-_").replace("~", "%7E")


def user_entity(name: str) -> ConfigEntity:
    """Where a user's settings are."""
    return ConfigEntity(KIND, node_name(name))


def user_name(node: str) -> str:
    """The name of the user whose node this is."""
    return unquote(node)


def read_users(store: Store) -> dict[str, dict[str, str]]:
    """The settings of every user that has a node."""
    try:
        nodes = store.children(paths.config(KIND, "").rstrip("/"))
    except NoNodeError:
        return {}
    return {
        user_name(node): read_overrides(store, ConfigEntity(KIND, node))
        for node in nodes
        if node != paths.DEFAULT_ENTITY
    }


def alter_user(store: Store, name: str, changes: Sequence[tuple[str, str | None]]) -> None:
    """Set settings of a user, or remove those whose value is None; others stay as they are."""
    alterations = [
        Alteration(AlterOperation.DELETE if value is None else AlterOperation.SET, setting, value)
        for setting, value in changes
    ]
    alter_overrides(store, user_entity(name), alterations, _no_list, _accept)


def _no_list(_name: str) -> None:
    return None


def _accept(_overrides: object) -> None:
    return
