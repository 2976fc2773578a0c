"""`tidelog transactions find-hanging`: transactions that are open in a partition and that no coordinator will end.

A transaction hangs if it has been open for longer than any timeout allows and its coordinator does not know that the
partition takes part in it. read_committed consumers and compaction stop at it.
"""

import time
from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import ActiveProducer
from tidelog.client.types import TopicPartition

EXAMPLE: Final = "tidelog transactions find-hanging --topic orders"

HEADINGS: Final = (
    "TOPIC",
    "PARTITION",
    "PRODUCER-ID",
    "EPOCH",
    "COORDINATOR-EPOCH",
    "START-OFFSET",
    "LAST-TIMESTAMP",
    "SILENT-FOR-MIN",
)
_MINUTE_MS: Final = 60_000


class Open(NamedTuple):
    """A transaction that has been open in a partition for a long time."""

    where: TopicPartition
    producer: ActiveProducer


def find_hanging(
    topic: Annotated[
        list[str] | None, typer.Option(help="Look at this topic; may be repeated.", show_default="all")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(help="Look at this partition of the topic only.", min=0, show_default="all")
    ] = None,
    broker_id: Annotated[
        int | None, typer.Option(help="Look at partitions led by this broker only.", show_default="all")
    ] = None,
    max_transaction_timeout: Annotated[
        int, typer.Option(help="Minutes that a transaction may take: transaction.max.timeout.ms of the brokers.")
    ] = 15,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Find transactions that hang: open for longer than any timeout, and unknown to their coordinator."""
    if partition is not None and len(topic or ()) != 1:
        raise CommandError("--partition needs one --topic")
    now_ms = time.time_ns() // 1_000_000
    with connect_admin(bootstrap_server, command_config) as admin:
        wanted = _partitions(admin, topic, partition, broker_id)
        candidates = _open_since(admin, wanted, now_ms - max_transaction_timeout * _MINUTE_MS)
        found = _unknown_to_coordinators(admin, candidates)
    if output is Format.JSON:
        print_json([_as_json(each) for each in found])
    elif found:
        print_table(HEADINGS, [_as_row(each, now_ms) for each in found])
    else:
        print_line("no hanging transactions")


def _partitions(
    admin: Admin, topics: list[str] | None, partition: int | None, broker_id: int | None
) -> list[TopicPartition]:
    names = topics or [each.name for each in admin.list_topics(include_internal=True)]
    return [
        TopicPartition(name, each.partition)
        for name, described in admin.describe_topics(names).items()
        for each in described.partitions
        if partition in (None, each.partition) and broker_id in (None, each.leader_id)
    ]


def _open_since(admin: Admin, wanted: Iterable[TopicPartition], before_ms: int) -> list[Open]:
    """Transactions whose producers have written nothing since `before_ms`."""
    return [
        Open(where, producer)
        for where, producers in sorted(admin.describe_producers(wanted).items())
        for producer in producers
        if producer.transaction_start_offset >= 0 and producer.last_timestamp < before_ms
    ]


def _unknown_to_coordinators(admin: Admin, candidates: list[Open]) -> list[Open]:
    """Those that do not belong to a transaction which its coordinator will end."""
    if not candidates:
        return []
    listed = admin.list_transactions(producer_ids={each.producer.producer_id for each in candidates})
    described = admin.describe_transactions([each.transactional_id for each in listed]) if listed else {}
    known = {(each.producer_id, where) for each in described.values() for where in each.partitions}
    return [each for each in candidates if (each.producer.producer_id, each.where) not in known]


def _as_row(each: Open, now_ms: int) -> tuple[object, ...]:
    where, producer = each
    return (
        where.topic,
        where.partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.transaction_start_offset,
        producer.last_timestamp,
        (now_ms - producer.last_timestamp) // _MINUTE_MS,
    )


def _as_json(each: Open) -> dict[str, object]:
    where, producer = each
    return {
        "topic": where.topic,
        "partition": where.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": producer.coordinator_epoch,
        "start_offset": producer.transaction_start_offset,
        "last_timestamp": producer.last_timestamp,
    }
