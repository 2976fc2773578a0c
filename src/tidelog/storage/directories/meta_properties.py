"""`meta.properties`: which broker of which cluster a log directory belongs to.

Read before anything else is opened, so that a disk mounted on the wrong machine is rejected:

    MetaPropertiesError (a StorageError)
      ├── InconsistentBrokerMetadataError   the log directories disagree with each other
      ├── InconsistentClusterIdError        they belong to another cluster than the metadata
      └── InconsistentBrokerIdError         they belong to another broker than the configuration names

Version 0 (`broker.id`, `cluster.id`) is what Kafka writes in ZooKeeper mode and what is written here; version 1
(`node.id`, `cluster.id`) is KRaft's and accepted, so that such a directory can be adopted. Unknown lines are kept when
a file is rewritten.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.config.errors import ConfigError
from tidelog.config.properties import format_properties, parse_properties
from tidelog.storage.errors import StorageError
from tidelog.storage.replacing import write_atomically

META_PROPERTIES_FILE: Final = "meta.properties"

_VERSION: Final = "version"
_CLUSTER_ID: Final = "cluster.id"
_DIRECTORY_ID: Final = "directory.id"
_ID_NAME: Final = {0: "broker.id", 1: "node.id"}  # by version
_ID_MAX: Final = 2**31 - 1


class MetaPropertiesError(StorageError):
    """A `meta.properties` is malformed, or contradicts the metadata or the configuration."""


class InconsistentBrokerMetadataError(MetaPropertiesError):
    """The `meta.properties` of the log directories name different brokers or clusters."""


class InconsistentClusterIdError(MetaPropertiesError):
    """The log directories were written by a broker of another cluster."""


class InconsistentBrokerIdError(MetaPropertiesError):
    """The log directories were written by a broker with another id."""


class MetaProperties(NamedTuple):
    """The contents of one file. `broker_id` is -1 and the others None where the file does not say."""

    broker_id: int = -1
    cluster_id: str | None = None
    version: int = 0
    directory_id: str | None = None
    others: tuple[tuple[str, str], ...] = ()


class MetaPropertiesScan(NamedTuple):
    """The result for each log directory, each listed in exactly one of the three."""

    found: dict[str, MetaProperties]
    missing: list[str]
    failed: dict[str, str]


def scan_meta_properties(directories: Iterable[str]) -> MetaPropertiesScan:
    """Read the file of each directory. One that cannot be read is reported in `failed`: as in Kafka it goes offline."""
    scan = MetaPropertiesScan({}, [], {})
    for directory in directories:
        try:
            properties = read_meta_properties(directory)
        except (OSError, MetaPropertiesError) as error:
            scan.failed[directory] = str(error)
            continue
        if properties is None:
            scan.missing.append(directory)
        else:
            scan.found[directory] = properties
    return scan


def agree_on_identity(
    found: Mapping[str, MetaProperties], *, cluster_id: str | None = None, broker_id: int = -1
) -> MetaProperties:
    """The identity in all directories, checked against the metadata's cluster id and the configuration.

    None and -1 mean "not known yet". The caller generates the fields that are unknown in the result.
    """
    stored = _common_word(found)
    if stored.cluster_id is not None and cluster_id is not None and stored.cluster_id != cluster_id:
        raise InconsistentClusterIdError(
            f"the metadata says cluster.id {cluster_id}, but {META_PROPERTIES_FILE} in {_list(found)} says "
            f"{stored.cluster_id}: these log directories belong to another cluster. Check zookeeper.connect and "
            "log.dirs; only if the data is to join this cluster, remove the file"
        )
    if stored.broker_id >= 0 and broker_id >= 0 and stored.broker_id != broker_id:
        raise InconsistentBrokerIdError(
            f"the configuration says broker.id {broker_id}, but {META_PROPERTIES_FILE} in {_list(found)} says "
            f"{stored.broker_id}. If the data was moved here, set broker.id={stored.broker_id}; "
            "if this is a new broker, use empty log.dirs"
        )
    return MetaProperties(
        broker_id=broker_id if broker_id >= 0 else stored.broker_id,
        cluster_id=cluster_id if cluster_id is not None else stored.cluster_id,
    )


def _common_word(found: Mapping[str, MetaProperties]) -> MetaProperties:
    brokers = {one.broker_id for one in found.values() if one.broker_id >= 0}
    clusters = {one.cluster_id for one in found.values() if one.cluster_id is not None}
    if len(brokers) > 1 or len(clusters) > 1:
        said = "; ".join(
            f"{path}: broker.id {one.broker_id}, cluster.id {one.cluster_id}" for path, one in found.items()
        )
        raise InconsistentBrokerMetadataError(
            f"the log directories belong to different brokers or clusters ({said}): "
            "remove those of others from log.dirs"
        )
    return MetaProperties(brokers.pop() if brokers else -1, clusters.pop() if clusters else None)


def read_meta_properties(directory: str) -> MetaProperties | None:
    """The file of `directory`, None when there is none. MetaPropertiesError when it is malformed."""
    path = os.path.join(directory, META_PROPERTIES_FILE)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    return parse_meta_properties(data, path)


def write_meta_properties(directory: str, properties: MetaProperties) -> None:
    """Replace the file of `directory`, synced."""
    write_atomically(os.path.join(directory, META_PROPERTIES_FILE), format_meta_properties(properties))


def parse_meta_properties(data: bytes, path: str) -> MetaProperties:
    """The contents of a file; `path` is only for the message of the MetaPropertiesError."""
    try:
        fields = parse_properties(data.decode())
    except (UnicodeDecodeError, ConfigError) as error:
        raise MetaPropertiesError(f"{path} is not a properties file: {error}") from error
    version = _number(fields.pop(_VERSION, None), _VERSION, path)
    if version not in _ID_NAME:
        raise MetaPropertiesError(f"{path}: version is {version}, expected 0 or 1")
    id_name = _ID_NAME[version]
    identifier = fields.pop(id_name, None)
    cluster_id = fields.pop(_CLUSTER_ID, None)
    if version == 1 and (identifier is None or cluster_id is None):
        raise MetaPropertiesError(f"{path}: version 1 needs both {id_name} and {_CLUSTER_ID}")
    broker_id = -1 if identifier is None else _number(identifier, id_name, path)
    directory_id = fields.pop(_DIRECTORY_ID, None)
    return MetaProperties(broker_id, cluster_id, version, directory_id, tuple(fields.items()))


def format_meta_properties(properties: MetaProperties) -> bytes:
    fields: dict[str, str] = {}
    if properties.broker_id >= 0:
        fields[_ID_NAME[properties.version]] = str(properties.broker_id)
    fields[_VERSION] = str(properties.version)
    if properties.cluster_id is not None:
        fields[_CLUSTER_ID] = properties.cluster_id
    if properties.directory_id is not None:
        fields[_DIRECTORY_ID] = properties.directory_id
    fields.update(properties.others)
    return ("#\n" + format_properties(fields)).encode()


def _number(text: str | None, name: str, path: str) -> int:
    if text is None:
        raise MetaPropertiesError(f"{path}: {name} is missing")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or int(text) > _ID_MAX:
        raise MetaPropertiesError(f"{path}: {name} is {text!r}, expected a whole number")
    return int(text)


def _list(found: Mapping[str, MetaProperties]) -> str:
    return ", ".join(found)
