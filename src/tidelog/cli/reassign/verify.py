"""`tidelog reassign verify` and `cancel`: progress and cancellation of a reassignment."""

from typing import Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.cli.reassign._plans import PlanFile, clear_throttle, current_log_dirs, current_plan, read_plan
from tidelog.client.aio.admin.types import TopicPartitionReplica
from tidelog.client.types import TopicPartition

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
    target, log_dirs = reassignment = read_plan(plan)
    with connect_admin(bootstrap_server, command_config) as admin:
        moving = admin.list_partition_reassignments()
        current = current_plan(admin, reassignment.topics)
        current_dirs, future_dirs = current_log_dirs(admin, log_dirs)
        in_place = {where for where, replicas in target.items() if current.get(where) == replicas}
        in_place -= {_partition_of(each) for each, path in log_dirs.items() if current_dirs.get(each) != path}
        on_the_way = {
            *moving,
            *(_partition_of(each) for each, path in log_dirs.items() if future_dirs.get(each) == path),
        }
        states = {
            where: "moving" if where in on_the_way else "done" if where in in_place else "not as planned"
            for where in target
        }
        # The rates of brokers hold for every plan: one of another plan may still need them.
        if not on_the_way:
            clear_throttle(admin, reassignment.topics)
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


def _partition_of(replica: TopicPartitionReplica) -> TopicPartition:
    return TopicPartition(replica.topic, replica.partition)


def cancel(
    plan: PlanFile,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Cancel a reassignment: partitions keep, or get back, their old replicas."""
    target, log_dirs = reassignment = read_plan(plan)
    with connect_admin(bootstrap_server, command_config) as admin:
        moving = admin.list_partition_reassignments(target)
        if moving:
            admin.alter_partition_reassignments(dict.fromkeys(moving))
        current_dirs, future_dirs = current_log_dirs(admin, log_dirs)
        on_the_way = {each: path for each, path in current_dirs.items() if each in future_dirs}
        if on_the_way:
            # A move to the directory that a replica is in ends the one that is under way.
            admin.alter_replica_log_dirs(on_the_way)
        clear_throttle(admin, reassignment.topics)
    cancelled = sorted({*moving, *map(_partition_of, on_the_way)})
    if output is Format.JSON:
        print_json([each._asdict() for each in cancelled])
    else:
        print_line(f"cancelled {len(cancelled)} reassignments" if cancelled else "no partition of this plan is moving")
