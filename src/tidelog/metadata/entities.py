"""Groups and subscriptions to clients' metrics in the tree, which keeps their settings under `/config`.

Kafka has these names for them, and keeps them only in KRaft mode; brokers of Kafka 3.9 in a cluster do not read them.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from tidelog.metadata import paths
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.store import Store
from tidelog.metadata.users import node_name, user_name

GROUPS: Final = "groups"
CLIENT_METRICS: Final = "client-metrics"
KINDS: Final = (GROUPS, CLIENT_METRICS)


def entity_of(kind: str, name: str) -> ConfigEntity:
    """Where the settings of a group or a subscription are; its name may have characters that nodes' names cannot."""
    return ConfigEntity(kind, node_name(name))


def name_of(node: str) -> str:
    """The name of the group or subscription whose node this is."""
    return user_name(node)


def read_entities(store: Store, kind: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Each with its settings; those without any are left out."""
    try:
        nodes = store.children(f"{paths.CONFIG}/{kind}")
    except NoNodeError:
        return
    for node in nodes:
        overrides = read_overrides(store, ConfigEntity(kind, node))
        if overrides:
            yield name_of(node), overrides
