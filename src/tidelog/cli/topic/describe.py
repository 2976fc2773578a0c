"""`tidelog topic describe`. The text is that of Kafka's own tool, because operators' scripts read it."""

from typing import Annotated, Any, Final

import typer

from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, connect
from tidelog.cli._output import print_json, print_line, uuid_text
from tidelog.client.cluster import ClusterClient
from tidelog.client.configs import Resource, ResourceType, describe_configs
from tidelog.client.refusals import raise_if_refused
from tidelog.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

EXAMPLE: Final = "tidelog topic describe orders"

_FROM_TOPIC = 1


def describe(
    topics: Annotated[
        list[str] | None, typer.Argument(help="Topics to describe; all if none is named.", metavar="TOPIC…")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Describe topics: id, partitions, leaders, replicas and settings that differ from the defaults."""
    with connect(bootstrap_server, command_config) as cluster:
        found = sorted(cluster.metadata(topics or None).topics, key=lambda topic: topic.name or "")
        for topic in found:
            raise_if_refused(f"topic {topic.name!r}", topic.error_code)
        described = [(topic, _overrides(cluster, str(topic.name))) for topic in found]
    if output is Format.JSON:
        print_json([_as_json(topic, configs) for topic, configs in described])
        return
    for topic, configs in described:
        _print_topic(topic, configs)


def _overrides(cluster: ClusterClient, topic: str) -> dict[str, str | None]:
    found = describe_configs(cluster, Resource(ResourceType.TOPIC, topic))
    return {config.name: config.value for config in found if config.config_source == _FROM_TOPIC}


def _replication_factor(topic: MetadataResponseTopic) -> int:
    return len(topic.partitions[0].replica_nodes) if topic.partitions else 0


def _partitions(topic: MetadataResponseTopic) -> list[MetadataResponsePartition]:
    return sorted(topic.partitions, key=lambda partition: partition.partition_index)


def _as_json(topic: MetadataResponseTopic, configs: dict[str, str | None]) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.is_internal,
        "replication_factor": _replication_factor(topic),
        "configs": configs,
        "partitions": [
            {
                "partition": partition.partition_index,
                "leader": partition.leader_id,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replica_nodes),
                "isr": list(partition.isr_nodes),
                "offline_replicas": list(partition.offline_replicas),
            }
            for partition in _partitions(topic)
        ],
    }


def _print_topic(topic: MetadataResponseTopic, configs: dict[str, str | None]) -> None:
    settings = ",".join(f"{name}={value}" for name, value in configs.items())
    print_line(
        f"Topic: {topic.name}\tTopicId: {uuid_text(topic.topic_id)}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {_replication_factor(topic)}\tConfigs: {settings}"
    )
    for partition in _partitions(topic):
        leader = partition.leader_id if partition.leader_id >= 0 else "none"
        print_line(
            f"\tTopic: {topic.name}\tPartition: {partition.partition_index}\tLeader: {leader}"
            f"\tReplicas: {_joined(partition.replica_nodes)}\tIsr: {_joined(partition.isr_nodes)}"
        )


def _joined(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))
