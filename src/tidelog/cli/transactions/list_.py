"""`tidelog transactions list`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_table

EXAMPLE: Final = "tidelog transactions list --state Ongoing --longer-than 60000"

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
    state: Annotated[
        list[str] | None, typer.Option(help="Only ids in this state; may be repeated.", show_default="any")
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option(help="Only this producer id; may be repeated.", show_default="any")
    ] = None,
    longer_than: Annotated[
        int, typer.Option(help="Only transactions open for more than this many milliseconds.", show_default="any")
    ] = -1,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List transactional ids with their producers and states."""
    with connect_admin(bootstrap_server, command_config) as admin:
        found = admin.list_transactions(
            states=[_state(each) for each in state or ()],
            producer_ids=producer_id or (),
            longer_than_s=None if longer_than < 0 else longer_than / 1000,
        )
    if output is Format.JSON:
        print_json(
            [
                {"transactional_id": each.transactional_id, "producer_id": each.producer_id, "state": each.state}
                for each in found
            ]
        )
        return
    rows = [(each.transactional_id, each.producer_id, each.state) for each in found]
    print_table(("TRANSACTIONAL-ID", "PRODUCER-ID", "STATE"), rows)


def _state(text: str) -> str:
    """A state in the spelling of brokers, whatever its case."""
    for state in STATES:
        if state.lower() == text.lower():
            return state
    raise CommandError(f"--state {text!r} must be one of {', '.join(STATES)}")
