"""Who this broker is: its cluster id and broker id, from the metadata, the log directories and the configuration.

Start-up calls `establish_identity` before anything is loaded, so that a broker that was pointed at the wrong data or
the wrong cluster says so and touches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.config import BrokerConfig, ConfigError
from tidelog.metadata.cluster_id import generate_broker_id, get_or_create_cluster_id
from tidelog.metadata.store import Store
from tidelog.storage.meta_properties import (
    MetaProperties,
    agree_on_identity,
    scan_meta_properties,
    write_meta_properties,
)


class Identity(NamedTuple):
    """The broker's names."""

    cluster_id: str
    broker_id: int


def establish_identity(store: Store, directories: Sequence[str], config: BrokerConfig) -> Identity:
    """Agree on cluster and broker id, generate what nobody knows yet, and write it to every log directory."""
    scan = scan_meta_properties(directories)
    stored = agree_on_identity(scan.found)
    # An empty tree takes over the id that the data already bears: a directory of Apache Kafka's moves in as it is.
    cluster_id = get_or_create_cluster_id(store, adopt=stored.cluster_id)
    agreed = agree_on_identity(scan.found, cluster_id=cluster_id, broker_id=config.broker_id)
    broker_id = agreed.broker_id
    if broker_id < 0:
        if not config.broker_id_generation_enable:
            raise ConfigError("broker.id is not set and broker.id.generation.enable is false: set one of the two")
        broker_id = generate_broker_id(store, config.reserved_broker_max_id)
    for directory in directories:
        known = scan.found.get(directory)
        if directory not in scan.failed and (known is None or known.broker_id != broker_id or known.version != 0):
            properties = (known or MetaProperties())._replace(broker_id=broker_id, cluster_id=cluster_id, version=0)
            write_meta_properties(directory, properties)
    return Identity(cluster_id, broker_id)
