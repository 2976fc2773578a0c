"""Which metadata tree a broker uses, by its settings, and whether other brokers share it.

zookeeper.connect     a ZooKeeper ensemble; any number of brokers, Apache Kafka's among them
metadata.socket       the tree that `tidelog cluster up` serves to the brokers of one machine
neither               a file in `log.dirs`; this broker is alone
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tidelog.config import BrokerConfig, ConfigError
from tidelog.metadata.embedded import METADATA_FILE_NAME, EmbeddedStore
from tidelog.metadata.store import Store
from tidelog.storage.errors import StorageError


def open_store(config: BrokerConfig, directories: Sequence[str]) -> Store:
    """Begin a session with the tree; `directories` are the log directories that can be used."""
    if config.zookeeper_connect is not None:
        if config.metadata_socket is not None:
            raise ConfigError("zookeeper.connect and metadata.socket name two metadata trees: set one of them")
        return _open_zookeeper(config)
    if config.metadata_socket is not None:
        return _open_shared(config)
    return EmbeddedStore(_metadata_path(directories, config.log_dirs))


def _open_zookeeper(config: BrokerConfig) -> Store:
    assert config.zookeeper_connect is not None, "zookeeper.connect is set"
    from tidelog.metadata.zookeeper_options import zookeeper_options

    options = zookeeper_options(config)
    try:
        from tidelog.metadata.zookeeper import ZooKeeperStore
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"zookeeper.connect needs {error.name}, which is not installed: pip install 'tidelog[zookeeper]'"
        ) from error
    return ZooKeeperStore(config.zookeeper_connect, options)


def _open_shared(config: BrokerConfig) -> Store:
    from tidelog.metadata.shared import SharedStore

    assert config.metadata_socket is not None, "metadata.socket is set"
    return SharedStore(
        config.metadata_socket,
        session_timeout_ms=config.zookeeper_session_timeout_ms,
        connection_timeout_ms=config.zookeeper_connection_timeout_ms,
    )


def _metadata_path(directories: Sequence[str], configured: Sequence[str]) -> str:
    """Where the embedded metadata is: in the first of `log.dirs`, or in the one that has it.

    If the first is offline and no other has it, starting with an empty tree would look like losing every topic.
    """
    for directory in directories:
        path = os.path.join(directory, METADATA_FILE_NAME)
        if os.path.exists(path):
            return path
    first = os.path.abspath(configured[0])
    if first not in directories:
        raise StorageError(f"{first}, the first of log.dirs, holds the metadata and cannot be used: repair it first")
    return os.path.join(first, METADATA_FILE_NAME)
