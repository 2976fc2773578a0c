"""Plans of a reassignment: the JSON that Kafka's own tool reads and writes, and the throttles that go with one.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidelog.cli.errors import CommandError
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import AlterOperation, ConfigChange, ConfigResource, ResourceType
from tidelog.client.types import TopicPartition

Plan = dict[TopicPartition, tuple[int, ...]]
"""The brokers that are to have each partition, the preferred leader first."""

PlanFile = Annotated[
    Path, typer.Argument(help="The plan, as `generate` prints it.", metavar="FILE", show_default=False)
]

THROTTLED_RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED_REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


def read_plan(path: Path) -> Plan:
    """The plan in a file; raises `CommandError` that names what is wrong with it."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandError(f"{path} is not JSON: {error}") from error
    plan: Plan = {}
    try:
        for entry in document["partitions"]:
            where = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            replicas = tuple(int(replica) for replica in entry["replicas"])
            if where in plan:
                raise CommandError(f"{path} names {where.topic}-{where.partition} twice")
            if not replicas or len(set(replicas)) != len(replicas):
                raise CommandError(f"{path}: {where.topic}-{where.partition} has invalid replicas {list(replicas)}")
            plan[where] = replicas
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(
            f'{path} is not a plan: expected {{"version": 1, "partitions": [{{"topic", "partition", "replicas"}}, …]}}'
        ) from error
    if not plan:
        raise CommandError(f"{path} has no partitions")
    return plan


def plan_document(plan: Mapping[TopicPartition, Iterable[int]]) -> dict[str, Any]:
    """What a plan looks like in a file."""
    return {
        "version": 1,
        "partitions": [
            {"topic": where.topic, "partition": where.partition, "replicas": list(replicas)}
            for where, replicas in sorted(plan.items())
        ],
    }


def current_plan(admin: Admin, topics: Iterable[str]) -> Plan:
    """Where the partitions of topics are now."""
    return {
        TopicPartition(topic.name, partition.partition): partition.replicas
        for topic in admin.describe_topics(topics).values()
        for partition in topic.partitions
    }


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
    names = {**dict.fromkeys(brokers, THROTTLED_RATES), **dict.fromkeys(of_topics, THROTTLED_REPLICAS)}
    admin.incremental_alter_configs(
        {
            resource: [ConfigChange(name, None, AlterOperation.DELETE) for name in settings]
            for resource, settings in names.items()
        }
    )
