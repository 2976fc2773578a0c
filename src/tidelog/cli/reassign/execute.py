"""`tidelog reassign execute`: begin to move partitions."""

import sys
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig
from tidelog.cli.output import print_json
from tidelog.cli.reassign._plans import PlanFile, current_plan, plan_document, read_plan, set_throttle

EXAMPLE: Final = "tidelog reassign execute plan.json > before.json"


def execute(
    plan: PlanFile,
    throttle: Annotated[
        int | None,
        typer.Option(
            "--throttle",
            help="Bytes a second that each broker sends and fetches for this plan. Execute it again to change that.",
            min=1,
            show_default="no limit",
        ),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
) -> None:
    """Start to move partitions. Prints the plan that reverts it; `verify` shows when it is done."""
    target = read_plan(plan)
    with connect_admin(bootstrap_server, command_config) as admin:
        current = current_plan(admin, sorted({where.topic for where in target}))
        if throttle is not None:
            set_throttle(admin, current, target, throttle)
        admin.alter_partition_reassignments(target)
    print_json(plan_document({where: current[where] for where in target if where in current}))
    sys.stdout.flush()
    # For people, beside a document on stdout that programs read.
    sys.stderr.write(f"tidelog: {len(target)} partitions are moving; see `tidelog reassign verify {plan}`\n")
