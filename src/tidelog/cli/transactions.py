"""`tidelog transactions`: list, describe and abort transactions, and find hanging ones."""

import asyncio
import time
from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.admin import AdminSettings, AsyncAdmin
from tidelog.client.aio.admin.types import ActiveProducer, TransactionDescription
from tidelog.client.types import TopicPartition
from tidelog.health.hanging import OpenTransaction, hanging_transactions


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    transactions = noun(application, "transactions", "List, describe and abort transactions; find hanging ones.")
    verb(transactions, "list", list_transactions, "tidelog transactions list --state Ongoing --longer-than 60000")
    verb(transactions, "describe", describe, "tidelog transactions describe payments-0")
    verb(transactions, "abort", abort, "tidelog transactions abort --topic orders --partition 3 --start-offset 5120")
    verb(transactions, "find-hanging", find_hanging, "tidelog transactions find-hanging --topic orders")


STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)


def list_transactions(
    connection: Connection,
    state: Annotated[
        list[str] | None, typer.Option(help="Only ids in this state; may be repeated.", show_default="any")
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option(help="Only this producer id; may be repeated.", show_default="any")
    ] = None,
    longer_than: Annotated[
        int, typer.Option(help="Only transactions open for more than this many milliseconds.", show_default="any")
    ] = -1,
) -> Result:
    """List transactional ids with their producers and states."""
    with connection.admin() as admin:
        found = admin.list_transactions(
            states=[_state(each) for each in state or ()],
            producer_ids=producer_id or (),
            longer_than_s=None if longer_than < 0 else longer_than / 1000,
        )
    rows = [(each.transactional_id, each.producer_id, each.state) for each in found]
    document = [dict(zip(("transactional_id", "producer_id", "state"), row, strict=True)) for row in rows]
    return Result(document, Table(headings=_LISTED, rows=rows, nothing="No transactional id matches."))


def _state(text: str) -> str:
    """A state in the spelling of brokers, whatever its case."""
    for state in STATES:
        if state.lower() == text.lower():
            return state
    raise CommandError(f"--state {text!r} must be one of {', '.join(STATES)}")


_DESCRIBED: Final = (
    "TRANSACTIONAL-ID",
    "COORDINATOR",
    "PRODUCER-ID",
    "EPOCH",
    "STATE",
    "TIMEOUT-MS",
    "OPEN-FOR-MS",
    "PARTITIONS",
)


def describe(
    connection: Connection,
    transactional_ids: Annotated[
        list[str], typer.Argument(help="Transactional ids to describe.", metavar="ID…", show_default=False)
    ],
) -> Result:
    """Describe transactional ids: producer, state, timeout, and the partitions of the open transaction."""
    with connection.admin() as admin:
        described = admin.describe_transactions(transactional_ids)
    found = [described[name] for name in dict.fromkeys(transactional_ids)]
    now_ms = time.time_ns() // 1_000_000
    table = Table(headings=_DESCRIBED, rows=[_row(each, now_ms) for each in found])
    return Result([_as_json(each, now_ms) for each in found], table)


def open_for_ms(described: TransactionDescription, now_ms: int) -> int | None:
    """How long its transaction has been open; None when none is."""
    return None if described.state != "Ongoing" else max(now_ms - described.start_time_ms, 0)


def _row(described: TransactionDescription, now_ms: int) -> tuple[object, ...]:
    duration_ms = open_for_ms(described, now_ms)
    return (
        described.transactional_id,
        described.coordinator.node_id,
        described.producer_id,
        described.producer_epoch,
        described.state,
        described.timeout_ms,
        "-" if duration_ms is None else duration_ms,
        ",".join(map(str, sorted(described.partitions))) or "-",
    )


def _as_json(described: TransactionDescription, now_ms: int) -> dict[str, Any]:
    return {
        "transactional_id": described.transactional_id,
        "coordinator": described.coordinator.node_id,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "state": described.state,
        "timeout_ms": described.timeout_ms,
        "start_time_ms": described.start_time_ms if described.start_time_ms >= 0 else None,
        "open_for_ms": open_for_ms(described, now_ms),
        "partitions": [{"topic": where.topic, "partition": where.partition} for where in sorted(described.partitions)],
    }


def abort(
    connection: Connection,
    transactional_id: Annotated[
        str | None,
        typer.Option(
            help="Abort the open transaction of this id, and fence its producer.", show_default=False, metavar="ID"
        ),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of a hanging transaction.", show_default=False)] = None,
    partition: Annotated[int | None, typer.Option(help="Its partition.", min=0, show_default=False)] = None,
    start_offset: Annotated[
        int | None, typer.Option(help="Its start offset, as find-hanging prints it.", min=0, show_default=False)
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(help="Its producer, instead of --start-offset.", min=0, show_default=False)
    ] = None,
) -> Result:
    """Abort a transaction: by its transactional id, or, if its coordinator does not know it, in one partition."""
    if transactional_id is not None and (topic, partition, start_offset, producer_id) == (None,) * 4:
        with connection.admin() as admin:
            admin.describe_transactions([transactional_id])  # otherwise fencing would create an unknown id
            admin.fence_producers([transactional_id])
        text = f"{transactional_id}: no open transaction any more; its producer is fenced and must be restarted"
        return Result({"transactional_id": transactional_id}, text)
    if (
        transactional_id is not None
        or topic is None
        or partition is None
        or (start_offset is None) == (producer_id is None)
    ):
        raise CommandError(
            "give --transactional-id alone, or --topic and --partition with --start-offset or --producer-id"
        )
    where = TopicPartition(topic, partition)
    with connection.admin() as admin:
        found = _open_transaction(admin, where, start_offset, producer_id)
        admin.abort_transaction(where, found.producer_id, found.producer_epoch, max(found.coordinator_epoch, 0))
    document = {**where._asdict(), "producer_id": found.producer_id, "start_offset": found.transaction_start_offset}
    text = f"aborted the transaction of producer {found.producer_id} at {found.transaction_start_offset}"
    return Result(document, f"{where}: {text}")


def _open_transaction(
    admin: Admin, where: TopicPartition, start_offset: int | None, producer_id: int | None
) -> ActiveProducer:
    """The producer whose transaction is meant."""
    producers = [each for each in admin.describe_producers([where])[where] if each.transaction_start_offset >= 0]
    for each in producers:
        if start_offset == each.transaction_start_offset or producer_id == each.producer_id:
            return each
    known = ", ".join(f"{each.transaction_start_offset} (producer {each.producer_id})" for each in producers) or "none"
    wanted = f"at offset {start_offset}" if producer_id is None else f"of producer {producer_id}"
    raise CommandError(f"{where} has no open transaction {wanted}; open ones start at: {known}")


_LISTED: Final = ("TRANSACTIONAL-ID", "PRODUCER-ID", "STATE")
_HANGING: Final = (
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
    connection: Connection,
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
) -> Result:
    """Find transactions that hang: open for longer than any timeout, and unknown to their coordinator."""
    if partition is not None and len(topic or ()) != 1:
        raise CommandError("--partition needs one --topic")
    now_ms = time.time_ns() // 1_000_000
    settings = connection.settings(AdminSettings)
    silent_ms = max_transaction_timeout * _MINUTE_MS
    found = asyncio.run(_find(settings, topic, partition, broker_id, now_ms, silent_ms))
    table = Table(
        headings=_HANGING, rows=[_hanging_row(each, now_ms) for each in found], nothing="no hanging transactions"
    )
    return Result(list(map(_hanging_as_json, found)), table)


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


def _hanging_row(each: OpenTransaction, now_ms: int) -> tuple[object, ...]:
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


def _hanging_as_json(each: OpenTransaction) -> dict[str, object]:
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
