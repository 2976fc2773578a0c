"""`tidelog transactions describe`."""

import time
from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_table
from tidelog.client.aio.admin.types import TransactionDescription

EXAMPLE: Final = "tidelog transactions describe payments-0"

HEADINGS: Final = (
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
    transactional_ids: Annotated[
        list[str], typer.Argument(help="Transactional ids to describe.", metavar="ID…", show_default=False)
    ],
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Describe transactional ids: producer, state, timeout, and the partitions of the open transaction."""
    with connect_admin(bootstrap_server, command_config) as admin:
        described = admin.describe_transactions(transactional_ids)
    found = [described[name] for name in dict.fromkeys(transactional_ids)]
    now_ms = time.time_ns() // 1_000_000
    if output is Format.JSON:
        print_json([_as_json(each, now_ms) for each in found])
        return
    print_table(HEADINGS, [_as_row(each, now_ms) for each in found])


def open_for_ms(described: TransactionDescription, now_ms: int) -> int | None:
    """How long its transaction has been open; None when none is."""
    return None if described.state != "Ongoing" else max(now_ms - described.start_time_ms, 0)


def _as_row(described: TransactionDescription, now_ms: int) -> tuple[object, ...]:
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
