"""`tidelog delay reschedule`."""

import time
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, TopicName
from tidelog.cli.delay._options import Key, Offset, Partitions, check_selection
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line
from tidelog.health.findings import counted
from tidelog.records.delayed import parse_delay_ms, parse_deliver_at_ms

EXAMPLE: Final = "tidelog delay reschedule reminders --key order-17 --delay 1h"


def reschedule(
    topic: TopicName,
    delay: Annotated[str | None, typer.Option(help="From now on, such as 500ms, 10s, 5m, 2h or 1d.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="Milliseconds since 1970.")] = None,
    key: Key = None,
    offset: Offset = None,
    partition: Partitions = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Give records that wait another time."""
    check_selection(key, offset)
    deliver_at_ms = _time_of(delay, at)
    with connect_admin(bootstrap_server, command_config) as admin:
        count = admin.reschedule_delayed_records(
            topic, deliver_at_ms, partition, offset=offset, key=None if key is None else key.encode()
        )
    if output is Format.JSON:
        print_json({"rescheduled": count, "deliver_at_ms": deliver_at_ms})
    else:
        print_line(f"{counted(count, 'record', 'was', 'were')} rescheduled in {topic}.")


def _time_of(delay: str | None, at: str | None) -> int:
    if (delay is None) == (at is None):
        raise CommandError("name the new time with either --delay or --at")
    try:
        if delay is not None:
            return time.time_ns() // 1_000_000 + parse_delay_ms(delay.encode())
        return parse_deliver_at_ms((at or "").encode())
    except ValueError:
        if delay is not None:
            raise CommandError(f"--delay {delay!r} is not a delay such as 1500, 500ms, 10s, 5m, 2h or 1d") from None
        raise CommandError(f"--at {at!r} is not a time in milliseconds since 1970") from None
