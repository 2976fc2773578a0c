"""`tidelog cluster migrate`: move the metadata of a single broker to ZooKeeper, so that it can become a cluster."""

from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result
from tidelog.config import BrokerConfig, ConfigError, load_broker_config, parse_properties
from tidelog.metadata.embedded import METADATA_FILE_NAME, EmbeddedStore
from tidelog.metadata.errors import StoreError
from tidelog.metadata.migration import Migrated, migrate_tree
from tidelog.metadata.zookeeper_options import zookeeper_options

EXAMPLE: Final = "tidelog cluster migrate --data /var/lib/tidelog --zookeeper zk1:2181,zk2:2181/kafka"


def migrate(
    zookeeper: Annotated[
        str,
        typer.Option(help="Target: an empty chroot.", metavar="HOST:PORT[/CHROOT]"),
    ],
    data: Annotated[
        Path, typer.Option(help="The stopped broker's log directory that has the metadata file.", metavar="DIR")
    ],
    config: Annotated[
        Path | None,
        typer.Option(help="The broker's server.properties, for zookeeper.ssl.* and timeouts.", metavar="FILE"),
    ] = None,
) -> Result:
    """Move the metadata of a stopped single broker to ZooKeeper, so that other brokers can join it.

    The records stay where they are. If the command is interrupted, run it again.
    """
    path = data / METADATA_FILE_NAME
    if not path.exists():
        raise CommandError(f"--data {data} has no {METADATA_FILE_NAME}: give the first of the broker's log.dirs")
    try:
        moved = _migrate(path, zookeeper, _read_config(config))
    except (StoreError, ConfigError) as error:
        raise CommandError(str(error)) from error
    done = "already moved" if moved.was_done else f"moved and verified {moved.nodes} nodes"
    lines = (
        f"The metadata of cluster {moved.cluster_id}, {moved.topics} topics: {done}.",
        f"Start the broker with zookeeper.connect={zookeeper} from now on.",
        "Its topics have one replica. Once other brokers have joined, give them more:",
        "tidelog reassign generate --all-topics --replication-factor 3",
    )
    return Result(moved._asdict(), "\n".join(lines))


def _read_config(path: Path | None) -> BrokerConfig:
    if path is None:
        return BrokerConfig()
    try:
        return load_broker_config(parse_properties(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise CommandError(f"--config {path} cannot be read: {error.strerror}") from error


def _migrate(path: Path, address: str, config: BrokerConfig) -> Migrated:
    options = zookeeper_options(config)
    try:
        from tidelog.metadata.zookeeper import ZooKeeperStore
    except ModuleNotFoundError as error:
        raise CommandError(f"--zookeeper needs {error.name}: pip install 'tidelog[zookeeper]'") from error
    # First, because this fails while the broker runs.
    source = EmbeddedStore(str(path))
    try:
        target = ZooKeeperStore(address, options)
        try:
            return migrate_tree(source, target, address)
        finally:
            target.close()
    finally:
        source.close()
