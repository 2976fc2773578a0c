"""`tidelog delay`: records that wait for their time in topics with `tidelog.delay.enable`."""

import time
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._options import TopicName
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import ConfigResource, ResourceType
from tidelog.health.findings import counted
from tidelog.records.delayed import parse_delay_ms, parse_deliver_at_ms


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    delay = noun(application, "delay", "List, cancel and reschedule delayed records.")
    verb(delay, "list", list_delayed, "tidelog delay list reminders --key order-17")
    verb(delay, "cancel", cancel, "tidelog delay cancel reminders --key order-17")
    verb(delay, "reschedule", reschedule, "tidelog delay reschedule reminders --key order-17 --delay 1h")


Key = Annotated[str | None, typer.Option(help="Only records with this key.", show_default="any")]
Offset = Annotated[
    int | None, typer.Option(help="Only the record with this offset, as `delay list` shows it.", show_default="any")
]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", help="Only this partition; may be repeated.", show_default="all")
]


def check_selection(key: str | None, offset: int | None) -> None:
    """Raise unless something is selected."""
    if key is None and offset is None:
        raise CommandError("name the records with --key or --offset")


_ENABLE: Final = "tidelog.delay.enable"


def list_delayed(
    connection: Connection,
    topic: TopicName,
    key: Key = None,
    partition: Partitions = None,
    limit: Annotated[int, typer.Option(help="Most records to show of each partition.", min=0, max=10_000)] = 100,
) -> Result:
    """List the records that wait in a topic, the next due first."""
    with connection.admin() as admin:
        found = admin.list_delayed_records(topic, partition, limit=limit, key=None if key is None else key.encode())
        is_off = not any(listing.waiting for listing in found.values()) and not _delays(admin, topic)
    records = sorted(record for listing in found.values() for record in listing.records)
    waiting = sum(listing.waiting for listing in found.values())
    keys = [None if record.key is None else record.key.decode("utf-8", "replace") for record in records]
    hint = f"\nThe topic delays none: `tidelog topic alter {topic} --config {_ENABLE}=true` turns delays on."
    table = Table(
        headings=("DUE", "PARTITION", "OFFSET", "KEY", "VALUE-BYTES"),
        rows=[
            (
                datetime.fromtimestamp(record.deliver_at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
                record.partition,
                record.offset,
                "-" if key is None else key,
                record.value_bytes,
            )
            for record, key in zip(records, keys, strict=True)
        ],
        after=f"{counted(waiting, 'record', 'waits', 'wait')} in {topic}.{hint if is_off else ''}",
    )
    listed = [{**record._asdict(), "key": key} for record, key in zip(records, keys, strict=True)]
    return Result({"waiting": waiting, "records": listed}, table)


def _delays(admin: Admin, topic: str) -> bool:
    """Whether the topic's records can wait; True as well where its brokers have no such setting."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entry = admin.describe_configs([resource], names=[_ENABLE])[resource].get(_ENABLE)
    return entry is None or entry.value == "true"


def cancel(
    connection: Connection,
    topic: TopicName,
    key: Key = None,
    offset: Offset = None,
    partition: Partitions = None,
) -> Result:
    """Cancel records that wait: they never become visible."""
    check_selection(key, offset)
    with connection.admin() as admin:
        count = admin.cancel_delayed_records(topic, partition, offset=offset, key=None if key is None else key.encode())
    return Result({"cancelled": count}, f"{counted(count, 'record', 'was', 'were')} cancelled in {topic}.")


def reschedule(
    connection: Connection,
    topic: TopicName,
    delay: Annotated[str | None, typer.Option(help="From now on, such as 500ms, 10s, 5m, 2h or 1d.")] = None,
    at: Annotated[str | None, typer.Option("--at", help="Milliseconds since 1970.")] = None,
    key: Key = None,
    offset: Offset = None,
    partition: Partitions = None,
) -> Result:
    """Give records that wait another time."""
    check_selection(key, offset)
    deliver_at_ms = _time_of(delay, at)
    with connection.admin() as admin:
        count = admin.reschedule_delayed_records(
            topic, deliver_at_ms, partition, offset=offset, key=None if key is None else key.encode()
        )
    return Result(
        {"rescheduled": count, "deliver_at_ms": deliver_at_ms},
        f"{counted(count, 'record', 'was', 'were')} rescheduled in {topic}.",
    )


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
