"""`tidelog topic describe`. The text is that of Kafka's own tool, because operators' scripts read it."""

from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line, uuid_text
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import ConfigResource, ConfigSource, ResourceType, TopicDescription

EXAMPLE: Final = "tidelog topic describe orders"


def describe(
    topics: Annotated[
        list[str] | None, typer.Argument(help="Topics to describe; all if none is named.", metavar="TOPIC…")
    ] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with replicas that are not in sync.")
    ] = False,
    unavailable: Annotated[bool, typer.Option("--unavailable", help="Only partitions without a leader.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Describe topics: id, partitions, leaders, replicas and settings that differ from the defaults."""
    with connect_admin(bootstrap_server, command_config) as admin:
        names = topics or [topic.name for topic in admin.list_topics(include_internal=True)]
        found = sorted(admin.describe_topics(names).values())
        if under_replicated or unavailable:
            found = _troubled(found, under_replicated=under_replicated, unavailable=unavailable)
        overrides = _overrides(admin, [topic.name for topic in found])
    described = [(topic, overrides[topic.name]) for topic in found]
    if output is Format.JSON:
        print_json([_as_json(topic, configs) for topic, configs in described])
        return
    for topic, configs in described:
        _print_topic(topic, configs)


def _troubled(found: list[TopicDescription], *, under_replicated: bool, unavailable: bool) -> list[TopicDescription]:
    """Topics with only their under-replicated or unavailable partitions."""
    troubled = []
    for topic in found:
        partitions = tuple(
            each
            for each in topic.partitions
            if (under_replicated and len(each.in_sync) < len(each.replicas)) or (unavailable and each.leader_id < 0)
        )
        if partitions:
            troubled.append(topic._replace(partitions=partitions))
    return troubled


def _overrides(admin: Admin, topics: list[str]) -> dict[str, dict[str, str | None]]:
    found = admin.describe_configs(ConfigResource(ResourceType.TOPIC, topic) for topic in topics)
    return {
        resource.name: {
            entry.name: entry.value for entry in entries.values() if entry.source == ConfigSource.DYNAMIC_TOPIC
        }
        for resource, entries in found.items()
    }


def _replication_factor(topic: TopicDescription) -> int:
    return len(topic.partitions[0].replicas) if topic.partitions else 0


def _as_json(topic: TopicDescription, configs: dict[str, str | None]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": _replication_factor(topic),
        "configs": configs,
        "partitions": [
            {
                "partition": each.partition,
                "leader": each.leader_id,
                "leader_epoch": each.leader_epoch,
                "replicas": list(each.replicas),
                "isr": list(each.in_sync),
                "offline_replicas": list(each.offline),
            }
            for each in topic.partitions
        ],
    }


def _print_topic(topic: TopicDescription, configs: dict[str, str | None]) -> None:
    settings = ",".join(f"{name}={value}" for name, value in configs.items())
    print_line(
        f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {_replication_factor(topic)}\tConfigs: {settings}"
    )
    for each in topic.partitions:
        leader = each.leader_id if each.leader_id >= 0 else "none"
        print_line(
            f"\tTopic: {topic.name}\tPartition: {each.partition}\tLeader: {leader}"
            f"\tReplicas: {_joined(each.replicas)}\tIsr: {_joined(each.in_sync)}"
        )


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
