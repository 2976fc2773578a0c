"""Plans of a reassignment: the JSON that Kafka's own tool reads and writes, and the throttles that go with one.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3],
                               "log_dirs": ["any", "/data/1", "any"]}]}

`log_dirs` may be left out; it names a log directory of each replica's broker, or `any`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from tidelog.cli.errors import CommandError
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import (
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ResourceType,
    TopicPartitionReplica,
)
from tidelog.client.types import TopicPartition

Plan = dict[TopicPartition, tuple[int, ...]]
"""The brokers that are to have each partition, the preferred leader first."""

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
    """What a plan looks like in a file."""
    return {"version": 1, "partitions": [_entry(*each, log_dirs or {}) for each in sorted(plan.items())]}


def _entry(
    where: TopicPartition, replicas: Sequence[int], log_dirs: Mapping[TopicPartitionReplica, str]
) -> dict[str, Any]:
    entry: dict[str, Any] = {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
    directories = [log_dirs.get(TopicPartitionReplica(*where, replica), _ANY_DIRECTORY) for replica in replicas]
    if any(directory != _ANY_DIRECTORY for directory in directories):
        entry["log_dirs"] = directories
    return entry


def current_plan(admin: Admin, topics: Iterable[str]) -> Plan:
    """Where the partitions of topics are now."""
    return {
        TopicPartition(topic.name, partition.partition): partition.replicas
        for topic in admin.describe_topics(topics).values()
        for partition in topic.partitions
    }


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
