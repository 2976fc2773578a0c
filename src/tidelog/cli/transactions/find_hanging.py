"""`tidelog transactions find-hanging`: transactions that are open in a partition and that no coordinator will end.

A transaction hangs if it has been open for longer than any timeout allows and its coordinator does not know that the
partition takes part in it. read_committed consumers and compaction stop at it.
"""

import asyncio
import time
from typing import Annotated, Final

import typer

from tidelog.cli._clients import client_settings
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.client.aio.admin.admin import AdminSettings, AsyncAdmin
from tidelog.client.types import TopicPartition
from tidelog.health.hanging import OpenTransaction, hanging_transactions

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
    settings = client_settings(bootstrap_server, command_config, AdminSettings)
    silent_ms = max_transaction_timeout * _MINUTE_MS
    found = asyncio.run(_find(settings, topic, partition, broker_id, now_ms, silent_ms))
    if output is Format.JSON:
        print_json([_as_json(each) for each in found])
    elif found:
        print_table(HEADINGS, [_as_row(each, now_ms) for each in found])
    else:
        print_line("no hanging transactions")


async def _find(
    settings: dict[str, object],
    topics: list[str] | None,
    partition: int | None,
    broker_id: int | None,
    now_ms: int,
    silent_ms: int,
) -> list[OpenTransaction]:
    async with AsyncAdmin(settings) as admin:
        names = topics or [each.name for each in await admin.list_topics(include_internal=True)]
        wanted = [
            TopicPartition(name, each.partition)
            for name, described in (await admin.describe_topics(names)).items()
            for each in described.partitions
            if partition in (None, each.partition) and broker_id in (None, each.leader_id)
        ]
        return await hanging_transactions(admin, wanted, now_ms, silent_ms)


def _as_row(each: OpenTransaction, now_ms: int) -> tuple[object, ...]:
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


def _as_json(each: OpenTransaction) -> dict[str, object]:
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
