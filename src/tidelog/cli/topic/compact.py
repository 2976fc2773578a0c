"""`tidelog topic compact`."""

import time
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin, partitions_or_all
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, TopicName
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_table
from tidelog.cli.progress import progress
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import Compaction

EXAMPLE: Final = "tidelog topic compact --now accounts"

_POLL_S: Final = 0.1
_STEPS: Final = 100


def compact(
    topic: TopicName,
    now: Annotated[
        bool, typer.Option("--now", help="Compact now, including the newest segment; without it, only show the state.")
    ] = False,
    partition: Annotated[
        list[int] | None, typer.Option(help="Only this partition; may be repeated.", show_default="all")
    ] = None,
    wait: Annotated[bool, typer.Option(help="Wait until it is done, showing progress.")] = True,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Compact a topic now, whatever its dirty ratio, or show the state of its compaction."""
    with connect_admin(bootstrap_server, command_config) as admin:
        partitions = [each.partition for each in partitions_or_all(admin, topic, partition)]
        states = admin.compact_topic(topic, partitions, only_status=not now)
        if wait:
            states = _wait(admin, topic, partitions, states)
    _show(states, output)
    failed = [state for state in states if state.state == "failed"]
    if failed:
        raise CommandError(f"{topic}-{failed[0].partition} could not be compacted: {failed[0].message}")


def _wait(admin: Admin, topic: str, partitions: list[int], states: list[Compaction]) -> list[Compaction]:
    shown = 0
    with progress(f"compacting {topic}", _STEPS) as bar:
        while True:
            done = int(_STEPS * sum(state.share_done for state in states) / max(len(states), 1))
            bar.advance(max(done - shown, 0))
            shown = max(shown, done)
            if all(state.is_over for state in states):
                return states
            time.sleep(_POLL_S)
            states = admin.compact_topic(topic, partitions, only_status=True)


def _show(states: list[Compaction], output: Format) -> None:
    if output is Format.JSON:
        print_json([{**state._asdict(), "share_done": round(state.share_done, 3)} for state in states])
        return
    print_table(
        ("PARTITION", "BROKER", "STATE", "BYTES BEFORE", "BYTES AFTER"),
        [
            (state.partition, state.broker, state.state or "-", _bytes(state.bytes_before), _bytes(state.bytes_after))
            for state in states
        ],
    )


def _bytes(count: int) -> int | str:
    return count if count >= 0 else "-"
