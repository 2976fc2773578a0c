"""`tidelog reassign verify` and `cancel`: progress and cancellation of a reassignment."""

from typing import Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.cli.reassign._plans import PlanFile, clear_throttle, current_plan, read_plan

EXAMPLE: Final = "tidelog reassign verify plan.json"
CANCEL_EXAMPLE: Final = "tidelog reassign cancel plan.json"

EXIT_UNFINISHED: Final = 3


def verify(
    plan: PlanFile,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show which partitions have moved. Removes the throttles when none is moving; exit code 3 until all are done."""
    target = read_plan(plan)
    topics = sorted({where.topic for where in target})
    with connect_admin(bootstrap_server, command_config) as admin:
        moving = admin.list_partition_reassignments()
        current = current_plan(admin, topics)
        states = {
            where: "moving" if where in moving else "done" if current.get(where) == replicas else "not as planned"
            for where, replicas in target.items()
        }
        # The rates of brokers hold for every plan: one of another plan may still need them.
        if not moving:
            clear_throttle(admin, topics)
    rows = [
        (where.topic, where.partition, states[where], ",".join(map(str, current.get(where, ()))))
        for where in sorted(target)
    ]
    if output is Format.JSON:
        print_json([dict(zip(("topic", "partition", "state", "replicas"), row, strict=True)) for row in rows])
    else:
        print_table(("topic", "partition", "state", "replicas"), rows)
    if any(state != "done" for state in states.values()):
        raise typer.Exit(EXIT_UNFINISHED)


def cancel(plan: PlanFile, bootstrap_server: BootstrapServer = None, command_config: CommandConfig = None) -> None:
    """Cancel a reassignment: partitions keep, or get back, their old replicas."""
    target = read_plan(plan)
    with connect_admin(bootstrap_server, command_config) as admin:
        moving = admin.list_partition_reassignments(target)
        if moving:
            admin.alter_partition_reassignments(dict.fromkeys(moving))
        clear_throttle(admin, sorted({where.topic for where in target}))
    print_line(f"cancelled {len(moving)} reassignments" if moving else "no partition of this plan is moving")
