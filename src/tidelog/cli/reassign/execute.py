"""`tidelog reassign execute`: begin to move partitions."""

import sys
from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig
from tidelog.cli.output import print_json
from tidelog.cli.reassign._plans import (
    PlanFile,
    current_log_dirs,
    current_plan,
    plan_document,
    read_plan,
    set_alter_log_dirs_throttle,
    set_throttle,
)

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
    replica_alter_log_dirs_throttle: Annotated[
        int | None,
        typer.Option(
            "--replica-alter-log-dirs-throttle",
            help="Bytes a second that each broker copies between its log directories.",
            min=1,
            show_default="no limit",
        ),
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
) -> None:
    """Start to move partitions, to other brokers or log directories. Prints the plan that reverts it."""
    target, log_dirs = reassignment = read_plan(plan)
    with connect_admin(bootstrap_server, command_config) as admin:
        current = current_plan(admin, reassignment.topics)
        current_dirs, _ = current_log_dirs(admin, log_dirs)
        if throttle is not None:
            set_throttle(admin, current, target, throttle)
        if replica_alter_log_dirs_throttle is not None:
            set_alter_log_dirs_throttle(admin, log_dirs, replica_alter_log_dirs_throttle)
        admin.alter_partition_reassignments(target)
        if log_dirs:
            admin.alter_replica_log_dirs(log_dirs)
    print_json(plan_document({where: current[where] for where in target if where in current}, current_dirs))
    sys.stdout.flush()
    # For people, beside a document on stdout that programs read.
    sys.stderr.write(f"tidelog: {len(target)} partitions are moving; see `tidelog reassign verify {plan}`\n")
