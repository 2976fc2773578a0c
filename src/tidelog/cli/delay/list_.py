"""`tidelog delay list`."""

from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, TopicName
from tidelog.cli.delay._options import Key, Partitions
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.health.findings import counted

EXAMPLE: Final = "tidelog delay list reminders --key order-17"


def list_delayed(
    topic: TopicName,
    key: Key = None,
    partition: Partitions = None,
    limit: Annotated[int, typer.Option(help="Most records to show of each partition.", min=0, max=10_000)] = 100,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List the records that wait in a topic, the next due first."""
    with connect_admin(bootstrap_server, command_config) as admin:
        found = admin.list_delayed_records(topic, partition, limit=limit, key=None if key is None else key.encode())
    records = sorted(record for listing in found.values() for record in listing.records)
    waiting = sum(listing.waiting for listing in found.values())
    if output is Format.JSON:
        print_json(
            {
                "waiting": waiting,
                "records": [
                    {**record._asdict(), "key": None if record.key is None else record.key.decode("utf-8", "replace")}
                    for record in records
                ],
            }
        )
        return
    print_table(
        ("DUE", "PARTITION", "OFFSET", "KEY", "VALUE BYTES"),
        [
            (
                datetime.fromtimestamp(record.deliver_at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
                record.partition,
                record.offset,
                "-" if record.key is None else record.key.decode("utf-8", "replace"),
                record.value_bytes,
            )
            for record in records
        ],
    )
    print_line(f"{counted(waiting, 'record', 'waits', 'wait')} in {topic}.")
