"""`tidelog table create`."""

import os
import re
import shutil
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from tidelog.cli._clients import Connection
from tidelog.cli.errors import CommandError
from tidelog.cli.table._definition import (
    FORMATS,
    TopicTable,
    inferred_columns,
    location,
    parse_columns,
    pipeline_file,
)
from tidelog.cli.table._supervisor import DEFINITION, TableDirectory
from tidelog.cli.table.verbs import DEFAULT_DIRECTORY, Directory, TableName, start_detached
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.aio.consumer.settings import ConsumerSettings
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.cluster import Cluster
from tidelog.client.types import TopicPartition

EXAMPLE: Final = "tidelog table create orders --topic orders --format iceberg --warehouse lake --key id"

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_SAMPLE: Final = 1000
_OWN: Final = ("client.id", "bootstrap.timeout.ms", "bootstrap.servers")
_SETTINGS_FILE: Final = "client.properties"


def create(
    name: TableName,
    connection: Connection,
    topic: Annotated[str, typer.Option(help="The topic.", show_default=False)],
    warehouse: Annotated[
        str, typer.Option(help="Directory of the tables, or s3://…", metavar="PATH", show_default=False)
    ],
    table_format: Annotated[str, typer.Option("--format", help=f"{' or '.join(FORMATS)}.")] = FORMATS[0],
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="The column that makes a row, by which records are keyed; may be repeated.",
            metavar="COLUMN",
            show_default="rows are appended",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            help="Columns of the JSON values, such as 'id long, amount double'.",
            metavar="COLUMNS",
            show_default="as the topic's first records have them",
        ),
    ] = None,
    dead_letters: Annotated[
        str | None,
        typer.Option(help="The topic of records that do not fit.", metavar="TOPIC", show_default="TOPIC.dlq"),
    ] = None,
    every: Annotated[str, typer.Option(help="How often rows are committed to the table.", metavar="DURATION")] = "10s",
    runs: Annotated[bool, typer.Option("--start/--no-start", help="Start its pipeline in the background.")] = True,
    directory: Directory = DEFAULT_DIRECTORY,
) -> None:
    """Make a table of a topic's JSON records, and keep it equal to the topic.

    Without --key, every record is a row. With it, the last record of each key is its row, and a record without a value
    deletes it. Every row is written once. Records that do not fit become dead letters.
    """
    if _NAME.fullmatch(name) is None:
        raise CommandError(f"table {name!r}: a name has letters, digits, '_', '-' and '.', at most 100")
    place = TableDirectory(directory.absolute() / name)
    if place.path.exists():
        raise CommandError(f"{place.path} is there already: `tidelog table start {name}` goes on with a table")
    settings = connection.settings(AdminSettings, ConsumerSettings, ProducerSettings)
    columns = parse_columns(schema) if schema is not None else _inferred(connection, topic)
    own = {setting: str(value) for setting, value in settings.items() if setting not in _OWN}
    table = TopicTable(
        name,
        topic,
        table_format,
        warehouse if urlsplit(warehouse).scheme else str(Path(warehouse).absolute()),
        columns,
        tuple(key or ()),
        dead_letters or f"{topic}.dlq",
        every,
        bootstrap_servers=str(settings["bootstrap.servers"]),
        command_config=str(place.path / _SETTINGS_FILE) if own else None,
    )
    table.check()
    place.path.mkdir(parents=True)
    try:
        if own:
            _write_settings(place.path / _SETTINGS_FILE, own)
        place.definition.write_text(pipeline_file(table), encoding="utf-8")
        _check(place)
    except BaseException:
        shutil.rmtree(place.path)
        raise
    sys.stdout.write(f"{table_format} table {location(table)} ({table.schema})\n{place.path / DEFINITION}\n")
    if runs:
        start_detached(place)
        sys.stdout.write(f"table {name} runs; stop it with `tidelog table stop {name}`\n")


def _inferred(connection: Connection, topic: str) -> tuple[tuple[str, str], ...]:
    with closing(Cluster(connection.settings(AdminSettings))) as cluster:
        partitions = [TopicPartition(topic, each) for each in range(cluster.partition_count(topic))]
        starts, ends = (
            {where: place.offset for where, place in cluster.list_offsets(dict.fromkeys(partitions, which)).items()}
            for which in (EARLIEST, LATEST)
        )
        return inferred_columns([record.value for record in islice(cluster.read(starts, ends), _SAMPLE)])


def _write_settings(path: Path, settings: dict[str, str]) -> None:
    """For its owner alone: they may have a password among them."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        for name, value in settings.items():
            escaped = value.replace("\\", "\\\\")
            file.write(f"{name}={escaped}\n")


def _check(place: TableDirectory) -> None:
    from tidelog.spark.pipeline.checks.definition import check
    from tidelog.spark.pipeline.definition.loading import load_pipeline
    from tidelog.spark.pipeline.definition.pipeline import PipelineError

    try:
        problems = [each for each in check(load_pipeline(str(place.definition))) if not each.is_warning]
    except PipelineError as error:
        raise CommandError(str(error)) from None
    if problems:
        raise CommandError("; ".join(map(str, problems)))
