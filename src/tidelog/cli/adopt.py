"""`tidelog adopt`: import topic settings for a Kafka data directory before a Tidelog broker starts on it.

A data directory of Apache Kafka holds records; the topic settings are in ZooKeeper. This command writes them to the
metadata file in the directory, which the broker reads when it adopts the directory at its next start. Only the metadata
file is written, so the command may run while Kafka runs.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._kafka_settings import KafkaSettings, read_from_brokers, read_from_zookeeper
from tidelog.cli._options import Format, OutputFormat
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.config import ConfigError, load_broker_config, parse_properties, topic_config
from tidelog.metadata import paths
from tidelog.metadata.adoption import (
    KEEP_EVERYTHING,
    is_unsettled,
    read_adoption,
    write_adoption,
)
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.embedded import METADATA_FILE_NAME, EmbeddedStore
from tidelog.metadata.errors import StoreError
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.store import Store
from tidelog.metadata.tree import encode_config
from tidelog.metadata.walk import create_or_set
from tidelog.storage.directories.log_directory import LogDirectory, PartitionState
from tidelog.storage.directories.meta_properties import read_meta_properties
from tidelog.storage.errors import StorageError

EXAMPLE: Final = "tidelog adopt /var/lib/kafka --topic-config orders:cleanup.policy=compact"


class Found(NamedTuple):
    """Contents of log directories: partition count by topic, compacted topics, and the broker id."""

    partitions: dict[str, int]
    compacted: set[str]
    broker_id: int


class Settled(NamedTuple):
    """The overrides of a topic. `is_known` is False if its settings are unknown, so that it keeps all records."""

    topic: str
    overrides: dict[str, str]
    is_known: bool


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "adopt", adopt, EXAMPLE)


def adopt(
    directories: Annotated[
        list[Path],
        typer.Argument(help="All directories of the broker's log.dirs.", metavar="DIRECTORY…", show_default=False),
    ],
    topic_config: Annotated[
        list[str] | None,
        typer.Option(help="One setting of one topic; may be repeated.", metavar="TOPIC:NAME=VALUE"),
    ] = None,
    zookeeper: Annotated[
        str | None, typer.Option(help="Read the settings from Kafka's ZooKeeper.", metavar="HOST:PORT[/CHROOT]")
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Kafka's server.properties, with the broker's static defaults.", metavar="FILE"),
    ] = None,
    bootstrap_server: Annotated[
        str | None, typer.Option(help="Read the settings from running brokers.", metavar="HOST:PORT")
    ] = None,
    command_config: Annotated[
        Path | None, typer.Option(help="Client settings for --bootstrap-server.", metavar="FILE")
    ] = None,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="At the next start, adopt logs of topics that are not in the metadata.")
    ] = False,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Import topic settings for a Kafka data directory, before Tidelog starts on it.

    Topics with unknown settings keep all records, and the broker logs their names at each start.
    """
    if zookeeper and bootstrap_server:
        raise CommandError("give --zookeeper or --bootstrap-server, not both")
    given = _parse_topic_configs(topic_config or ())
    try:
        found = _look_into(directories)
        if not found.partitions:
            raise CommandError(f"there are no partitions in {', '.join(map(str, directories))}")
        if unknown := sorted(given.keys() - found.partitions.keys()):
            raise CommandError(f"--topic-config: no topic {', '.join(unknown)} in {', '.join(map(str, directories))}")
        known: dict[str, KafkaSettings] = {}
        if zookeeper:
            static = None if config is None else parse_properties(config.read_text(encoding="utf-8"))
            known = read_from_zookeeper(zookeeper, found.partitions.keys(), found.broker_id, static)
        elif bootstrap_server:
            with connect_admin(bootstrap_server, command_config) as admin:
                known = read_from_brokers(admin, found.partitions.keys())
        store = EmbeddedStore(str(_metadata_path(directories)))
        try:
            settled = _enter(store, found, given, known, orphans=orphans)
        finally:
            store.close()
    except (StoreError, StorageError) as error:
        raise CommandError(str(error)) from error
    _report(found, settled, orphans, output)


def _parse_topic_configs(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    given: dict[str, dict[str, str]] = {}
    for text in texts:
        topic, colon, assignment = text.partition(":")
        name, equals, value = assignment.partition("=")
        if not (topic and colon and name and equals):
            raise CommandError(f"--topic-config {text!r} is not TOPIC:NAME=VALUE")
        given.setdefault(topic, {})[name.strip()] = value.strip()
    return given


def _look_into(directories: Sequence[Path]) -> Found:
    partitions: Counter[str] = Counter()
    compacted: set[str] = set()
    broker_id = -1
    for path in directories:
        directory = LogDirectory(str(path))
        partitions.update(one.topic for one in directory.partitions() if one.state is PartitionState.LIVE)
        compacted.update(topic for topic, _ in directory.clean_points.read())
        properties = read_meta_properties(str(path))
        broker_id = broker_id if properties is None else properties.broker_id
    return Found(dict(sorted(partitions.items())), compacted, broker_id)


def _metadata_path(directories: Sequence[Path]) -> Path:
    """Path of the metadata file that the broker will read."""
    candidates = [path / METADATA_FILE_NAME for path in directories]
    return next((path for path in candidates if path.exists()), candidates[0])


def _enter(
    store: Store,
    found: Found,
    given: Mapping[str, Mapping[str, str]],
    known: Mapping[str, KafkaSettings],
    *,
    orphans: bool,
) -> list[Settled]:
    """Write the overrides of all topics with known settings, in one transaction."""
    prepare_tree(store)
    state = read_adoption(store)
    settled = [_settle(store, topic, given.get(topic, {}), known.get(topic)) for topic in found.partitions]
    changed = [one for one in settled if one.topic in given or one.topic in known]
    store.multi(
        [create_or_set(store, paths.config("topics", one.topic), encode_config(one.overrides)) for one in changed]
    )
    unsettled = set(state.unsettled_topics).difference(one.topic for one in changed if one.is_known)
    unsettled.update(one.topic for one in changed if not one.is_known)
    write_adoption(
        store, state._replace(unsettled_topics=tuple(sorted(unsettled)), wants_orphans=orphans or state.wants_orphans)
    )
    return settled


def _settle(store: Store, topic: str, given: Mapping[str, str], known: KafkaSettings | None) -> Settled:
    """The new overrides of a topic: the given ones first, then Kafka's, then those that keep all records."""
    before = read_overrides(store, ConfigEntity("topics", topic))
    is_new = store.exists(paths.config("topics", topic)) is None
    cautious = {} if topic in INTERNAL_TOPICS else KEEP_EVERYTHING
    if known is not None and known.is_complete:
        overrides = {**known.overrides, **given}
        is_known = True
    else:
        said = {**(known.overrides if known else {}), **given}
        overrides = {**(cautious if is_new else before), **said}
        is_known = topic in INTERNAL_TOPICS or bool(KEEP_EVERYTHING.keys() & said) or not is_unsettled(overrides)
    # The topic has one replica from now on: with more asked for, no producer could write with acks=all.
    if overrides.get("min.insync.replicas", "1") != "1":
        overrides["min.insync.replicas"] = "1"
    try:
        topic_config(overrides, load_broker_config({}))
    except ConfigError as error:
        raise CommandError(f"topic {topic}: {error}") from error
    return Settled(topic, overrides, is_known)


def _report(found: Found, settled: Sequence[Settled], orphans: bool, output: Format) -> None:
    if output is Format.JSON:
        print_json([{**one._asdict(), "partitions": found.partitions[one.topic]} for one in settled])
        return
    rows = [(one.topic, found.partitions[one.topic], _text(one, found)) for one in settled]
    print_table(("TOPIC", "PARTITIONS", "SETTINGS"), rows)
    if cautious := [one.topic for one in settled if not one.is_known]:
        print_line(
            f"\n{len(cautious)} topics keep all records, because their settings are unknown: set --topic-config, "
            "--bootstrap-server, or --zookeeper with --config."
        )
    if orphans:
        print_line("\nThe next start adopts logs of topics that are not in the metadata.")


def _text(settled: Settled, found: Found) -> str:
    settings = " ".join(f"{name}={value}" for name, value in sorted(settled.overrides.items()))
    if not settings:
        return "the settings of internal topics" if settled.topic in INTERNAL_TOPICS else "the broker's defaults"
    if settled.is_known:
        return settings
    hint = ", compacted until now" if settled.topic in found.compacted else ""
    return f"{settings} (unknown{hint})"
