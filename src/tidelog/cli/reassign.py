"""`tidelog reassign`: move partitions between brokers."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._placements import Plan, current_plan, spread, usable_brokers, with_replication_factor
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table, print_json
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import (
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ResourceType,
    TopicPartitionReplica,
)
from tidelog.client.types import TopicPartition
from tidelog.health.findings import counted


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    reassign = noun(application, "reassign", "Move partitions between brokers.")
    verb(reassign, "generate", generate, "tidelog reassign generate orders --brokers 1,2,3 > plan.json")
    verb(reassign, "execute", execute, "tidelog reassign execute plan.json > before.json")
    verb(reassign, "verify", verify, "tidelog reassign verify plan.json")
    verb(reassign, "cancel", cancel, "tidelog reassign cancel plan.json")


LogDirs = dict[TopicPartitionReplica, str]
"""The log directories that replicas are to be in, for those that a plan names one for."""


class Reassignment(NamedTuple):
    """What a plan says."""

    replicas: Plan
    log_dirs: LogDirs

    @property
    def topics(self) -> list[str]:
        return sorted({where.topic for where in self.replicas})


PlanFile = Annotated[
    Path, typer.Argument(help="The plan, as `generate` prints it.", metavar="FILE", show_default=False)
]

THROTTLED_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
ALTER_LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
THROTTLED_REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


_ANY_DIRECTORY: Final = "any"


def read_plan(path: Path) -> Reassignment:
    """The plan in a file; raises `CommandError` that names what is wrong with it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandError(f"{path} is not JSON: {error}") from error
    plan: Plan = {}
    log_dirs: LogDirs = {}
    try:
        for entry in document["partitions"]:
            where = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            replicas = tuple(int(replica) for replica in entry["replicas"])
            if where in plan:
                raise CommandError(f"{path} names {where.topic}-{where.partition} twice")
            if not replicas or len(set(replicas)) != len(replicas):
                raise CommandError(f"{path}: {where.topic}-{where.partition} has invalid replicas {list(replicas)}")
            plan[where] = replicas
            directories = [str(directory) for directory in entry.get("log_dirs") or [_ANY_DIRECTORY] * len(replicas)]
            if len(directories) != len(replicas):
                raise CommandError(
                    f"{path}: {where.topic}-{where.partition} has {len(replicas)} replicas, {len(directories)} log_dirs"
                )
            for replica, directory in zip(replicas, directories, strict=True):
                if directory != _ANY_DIRECTORY:
                    log_dirs[TopicPartitionReplica(*where, replica)] = directory
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CommandError(
            f'{path} is not a plan: expected {{"version": 1, "partitions": [{{"topic", "partition", "replicas"}}, …]}}'
        ) from error
    if not plan:
        raise CommandError(f"{path} has no partitions")
    return Reassignment(plan, log_dirs)


def plan_document(
    plan: Mapping[TopicPartition, Sequence[int]], log_dirs: Mapping[TopicPartitionReplica, str] | None = None
) -> dict[str, Any]:
    """What a plan looks like in a file. Its order is that in which the partitions are to move."""
    return {"version": 1, "partitions": [_entry(*each, log_dirs or {}) for each in plan.items()]}


def _entry(
    where: TopicPartition, replicas: Sequence[int], log_dirs: Mapping[TopicPartitionReplica, str]
) -> dict[str, Any]:
    entry: dict[str, Any] = {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
    directories = [log_dirs.get(TopicPartitionReplica(*where, replica), _ANY_DIRECTORY) for replica in replicas]
    if any(directory != _ANY_DIRECTORY for directory in directories):
        entry["log_dirs"] = directories
    return entry


def current_log_dirs(admin: Admin, replicas: Iterable[TopicPartitionReplica]) -> tuple[LogDirs, LogDirs]:
    """The log directories that replicas are in now, and those that they are moving to."""
    wanted = set(replicas)
    current: LogDirs = {}
    future: LogDirs = {}
    if not wanted:
        return current, future
    brokers = sorted({replica.broker_id for replica in wanted})
    partitions = sorted({TopicPartition(replica.topic, replica.partition) for replica in wanted})
    for broker_id, directories in admin.describe_log_dirs(brokers, partitions).items():
        for directory in directories:
            for where, found in directory.replicas.items():
                replica = TopicPartitionReplica(*where, broker_id)
                if replica in wanted:
                    (future if found.is_future else current)[replica] = directory.path
    return current, future


def in_place(reassignment: Reassignment, current: Plan, current_dirs: LogDirs) -> set[TopicPartition]:
    """The partitions of a plan that have the replicas, in the log directories, that it wants for them."""
    arrived = {where for where, replicas in reassignment.replicas.items() if current.get(where) == replicas}
    return arrived - {
        partition_of(each) for each, path in reassignment.log_dirs.items() if current_dirs.get(each) != path
    }


def partition_of(replica: TopicPartitionReplica) -> TopicPartition:
    """The partition that it is a replica of."""
    return TopicPartition(replica.topic, replica.partition)


def set_alter_log_dirs_throttle(admin: Admin, replicas: Iterable[TopicPartitionReplica], bytes_per_second: int) -> None:
    """Limit what each broker copies between its log directories."""
    admin.incremental_alter_configs(
        {
            ConfigResource(ResourceType.BROKER, str(broker)): [ConfigChange(ALTER_LOG_DIRS_RATE, str(bytes_per_second))]
            for broker in sorted({replica.broker_id for replica in replicas})
        }
    )


def set_throttle(admin: Admin, current: Plan, target: Plan, bytes_per_second: int) -> None:
    """Limit the traffic of this reassignment: sources are throttled as leaders, new replicas as followers."""
    brokers = {replica for plan in (current, target) for where in target for replica in plan.get(where, ())}
    changes: dict[ConfigResource, list[ConfigChange]] = {
        ConfigResource(ResourceType.BROKER, str(broker)): [
            ConfigChange(name, str(bytes_per_second)) for name in THROTTLED_RATES
        ]
        for broker in sorted(brokers)
    }
    for topic in sorted({where.topic for where in target}):
        leaders, followers = _throttled_replicas(topic, current, target)
        changes[ConfigResource(ResourceType.TOPIC, topic)] = [
            ConfigChange(name, ",".join(replicas))
            for name, replicas in zip(THROTTLED_REPLICAS, (leaders, followers), strict=True)
        ]
    admin.incremental_alter_configs(changes)


def _throttled_replicas(topic: str, current: Plan, target: Plan) -> tuple[list[str], list[str]]:
    leaders, followers = [], []
    for where, replicas in sorted(target.items()):
        if where.topic == topic:
            before = current.get(where, ())
            leaders += [f"{where.partition}:{replica}" for replica in before]
            followers += [f"{where.partition}:{replica}" for replica in replicas if replica not in before]
    return leaders, followers


def clear_throttle(admin: Admin, topics: Iterable[str]) -> None:
    """Remove every throttle of reassignments from the brokers and from these topics."""
    brokers = [ConfigResource(ResourceType.BROKER, str(node.node_id)) for node in admin.describe_cluster().nodes]
    of_topics = [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(set(topics))]
    rates = (*THROTTLED_RATES, ALTER_LOG_DIRS_RATE)
    names = {**dict.fromkeys(brokers, rates), **dict.fromkeys(of_topics, THROTTLED_REPLICAS)}
    admin.incremental_alter_configs(
        {
            resource: [ConfigChange(name, None, AlterOperation.DELETE) for name in settings]
            for resource, settings in names.items()
        }
    )


def generate(
    connection: Connection,
    topics: Annotated[
        list[str] | None, typer.Argument(help="Topics to move.", metavar="[TOPIC…]", show_default=False)
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every topic, the internal ones (__consumer_offsets) first.")
    ] = False,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            help="Replicas of each partition from now on. Leaders and replicas that are there stay where they are.",
            min=1,
            show_default="as it is, all placed again",
        ),
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option("--brokers", help="Brokers to use, by id.", metavar="ID,ID…", show_default="all that are alive"),
    ] = None,
) -> None:
    """Print a plan that spreads the partitions of topics over brokers. Nothing moves until `execute`."""
    if bool(topics) == all_topics:
        raise CommandError("give topics, or --all-topics")
    with connection.admin() as admin:
        usable = usable_brokers(admin, None if brokers is None else _parse_brokers(brokers))
        current = current_plan(admin, topics or None)
    if replication_factor is None:
        plan = spread(current, usable)
    else:
        plan = with_replication_factor(current, usable, replication_factor)
    print_json(plan_document(plan))


def _parse_brokers(text: str) -> list[int]:
    try:
        return sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise CommandError(f"--brokers {text!r} is not a list of ids such as 1,2,3") from None


def execute(
    connection: Connection,
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
) -> None:
    """Start to move partitions, to other brokers or log directories. Prints the plan that reverts it."""
    target, log_dirs = reassignment = read_plan(plan)
    with connection.admin() as admin:
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
    moving = len(target) - len(in_place(reassignment, current, current_dirs))
    text = f"{counted(moving, 'partition', 'is', 'are')} moving; see `tidelog reassign verify {plan}`"
    sys.stderr.write(
        f"tidelog: {text if moving else 'nothing has to move: every partition is where the plan puts it'}\n"
    )


EXIT_UNFINISHED: Final = 3


def verify(
    connection: Connection,
    plan: PlanFile,
) -> Result:
    """Show which partitions have moved. Removes the throttles when none is moving; exit code 3 until all are done."""
    target, log_dirs = reassignment = read_plan(plan)
    with connection.admin() as admin:
        moving = admin.list_partition_reassignments()
        current = current_plan(admin, reassignment.topics)
        current_dirs, future_dirs = current_log_dirs(admin, log_dirs)
        arrived = in_place(reassignment, current, current_dirs)
        on_the_way = {
            *moving,
            *(partition_of(each) for each, path in log_dirs.items() if future_dirs.get(each) == path),
        }
        states = {
            where: "moving" if where in on_the_way else "done" if where in arrived else "not as planned"
            for where in target
        }
        # The rates of brokers hold for every plan: one of another plan may still need them.
        if not on_the_way:
            clear_throttle(admin, reassignment.topics)
    rows = [
        (where.topic, where.partition, states[where], ",".join(map(str, current.get(where, ()))))
        for where in sorted(target)
    ]
    headings = ("topic", "partition", "state", "replicas")
    return Result(
        [dict(zip(headings, row, strict=True)) for row in rows],
        Table(headings=[each.upper() for each in headings], rows=rows),
        exit_code=0 if all(state == "done" for state in states.values()) else EXIT_UNFINISHED,
    )


def cancel(
    connection: Connection,
    plan: PlanFile,
) -> Result:
    """Cancel a reassignment: partitions keep, or get back, their old replicas."""
    target, log_dirs = reassignment = read_plan(plan)
    with connection.admin() as admin:
        moving = admin.list_partition_reassignments(target)
        if moving:
            admin.alter_partition_reassignments(dict.fromkeys(moving))
        current_dirs, future_dirs = current_log_dirs(admin, log_dirs)
        on_the_way = {each: path for each, path in current_dirs.items() if each in future_dirs}
        if on_the_way:
            # A move to the directory that a replica is in ends the one that is under way.
            admin.alter_replica_log_dirs(on_the_way)
        clear_throttle(admin, reassignment.topics)
    cancelled = sorted({*moving, *map(partition_of, on_the_way)})
    return Result(
        [each._asdict() for each in cancelled],
        f"cancelled {len(cancelled)} reassignments" if cancelled else "no partition of this plan is moving",
    )
