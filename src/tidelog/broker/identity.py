"""A broker's cluster id and broker id, from the metadata, the log directories and the configuration.

Established before anything is loaded, so that a broker that was pointed at the wrong data or the wrong cluster says so
and touches nothing. A directory whose `meta.properties` cannot be read goes offline, as in Kafka. The metadata knows
which brokers own partitions: a broker with another id would serve none of them, so it does not start.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from tidelog.config import BrokerConfig, ConfigError
from tidelog.metadata.cluster_id import generate_broker_id, get_cluster_id, get_or_create_cluster_id
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.loading import load_image
from tidelog.metadata.store import Store
from tidelog.storage.directories.log_directory import LogDirectory, PartitionState
from tidelog.storage.directories.meta_properties import (
    META_PROPERTIES_FILE,
    MetaProperties,
    MetaPropertiesError,
    MetaPropertiesScan,
    agree_on_identity,
    write_meta_properties,
)

logger = logging.getLogger(__name__)


class ForeignDirectoryError(MetaPropertiesError):
    """The metadata says that other brokers own every partition."""


def is_new_cluster(store: Store, scan: MetaPropertiesScan) -> bool:
    """Whether neither the metadata nor any directory has a cluster id yet."""
    return get_cluster_id(store) is None and agree_on_identity(scan.found).cluster_id is None


def establish_cluster_id(store: Store, scan: MetaPropertiesScan) -> str:
    """Agree on the cluster id, or generate one for a new cluster. MetaPropertiesError when no directory can say it."""
    if scan.failed and not scan.found:
        raise MetaPropertiesError(
            f"no log directory says which broker it belongs to: {'; '.join(scan.failed.values())}. "
            + _remedy(list(scan.failed), load_image(store, "").replica_ids(), get_cluster_id(store))
        )
    stored = agree_on_identity(scan.found)
    # An empty tree takes over the id in the data: a directory of Apache Kafka is adopted as it is.
    return get_or_create_cluster_id(store, adopt=stored.cluster_id)


def establish_broker_id(
    store: Store, scan: MetaPropertiesScan, config: BrokerConfig, cluster_id: str, image: ClusterImage
) -> int:
    """Agree on the broker id, or generate one for a new broker, and write it to every directory that is online.

    ForeignDirectoryError when the image's partitions all belong to other brokers.
    """
    broker_id = agree_on_identity(scan.found, cluster_id=cluster_id, broker_id=config.broker_id).broker_id
    owners = image.replica_ids()
    if owners and broker_id not in owners:
        raise _foreign(broker_id, owners, cluster_id, [*scan.found, *scan.missing])
    if broker_id < 0:
        if not config.broker_id_generation_enable:
            raise ConfigError("broker.id is not set and broker.id.generation.enable is false: set one of the two")
        broker_id = generate_broker_id(store, config.reserved_broker_max_id)
    for directory, known in [*scan.found.items(), *dict.fromkeys(scan.missing, MetaProperties()).items()]:
        if known.broker_id != broker_id or known.version != 0 or known.cluster_id != cluster_id:
            _warn_if_lost(directory, scan)
            write_meta_properties(directory, known._replace(broker_id=broker_id, cluster_id=cluster_id, version=0))
    return broker_id


def _foreign(
    broker_id: int, owners: Collection[int], cluster_id: str, directories: Sequence[str]
) -> ForeignDirectoryError:
    this = f"this is broker {broker_id}" if broker_id >= 0 else f"no {META_PROPERTIES_FILE} says which broker this is"
    return ForeignDirectoryError(
        f"the metadata says that every partition belongs to broker {', '.join(map(str, sorted(owners)))}, but {this}, "
        f"which would serve nothing. {_remedy(directories, owners, cluster_id)}"
    )


def _remedy(directories: Sequence[str], owners: Collection[int], cluster_id: str | None) -> str:
    """What an operator can do; the metadata knows what the file must say."""
    lines = f"version=0, broker.id={min(owners)} and cluster.id={cluster_id}" if owners and cluster_id else ""
    write = f", or write it with the lines {lines} if that is the broker whose data this is" if lines else ""
    return (
        f"Restore {META_PROPERTIES_FILE} in {', '.join(directories)} from a backup{write}; "
        "take directories of other brokers out of log.dirs"
    )


def _warn_if_lost(directory: str, scan: MetaPropertiesScan) -> None:
    if directory in scan.missing:
        count = sum(one.state is PartitionState.LIVE for one in LogDirectory(directory).partitions())
        if count:
            logger.warning(
                "%s has no %s, though it holds %d partitions: it is written again",
                directory,
                META_PROPERTIES_FILE,
                count,
            )
