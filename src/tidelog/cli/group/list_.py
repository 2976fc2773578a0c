"""`tidelog group list`."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line, print_table

EXAMPLE: Final = "tidelog group list --state stable"

_STATES: Final = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Assigning",
    "Reconciling",
)
_TYPES: Final = ("Classic", "Consumer")


def list_groups(
    state: Annotated[
        list[str] | None, typer.Option(help="Only groups in this state; may be repeated.", show_default="any")
    ] = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only groups of this type: classic or consumer.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show state, type and protocol.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List the groups of a cluster."""
    states = [_known("--state", each, _STATES) for each in state or ()]
    types = [_known("--type", each, _TYPES) for each in type_ or ()]
    with connect_admin(bootstrap_server, command_config) as admin:
        groups = admin.list_groups(states=states, types=types)
    if output is Format.JSON:
        print_json(
            [
                {"group": each.group_id, "state": each.state, "type": each.type, "protocol_type": each.protocol_type}
                for each in groups
            ]
        )
    elif verbose or state or type_:
        rows = [(each.group_id, each.state, each.type, each.protocol_type) for each in groups]
        print_table(("GROUP", "STATE", "TYPE", "PROTOCOL"), rows)
    else:
        for each in groups:
            print_line(each.group_id)


def _known(option: str, given: str, names: Sequence[str]) -> str:
    """The name, found case-insensitively."""
    for name in names:
        if name.lower() == given.lower():
            return name
    raise CommandError(f"{option} {given!r} must be one of {', '.join(names)}")
