"""The cluster, and its topics: made, widened, described and removed."""

from collections.abc import Iterable, Mapping

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import (
    ClusterDescription,
    CreatedTopic,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from tidelog.client.types import BrokerNode
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)


async def describe_cluster(driver: Driver) -> ClusterDescription:
    """The brokers and the controller, without topics: those of a large cluster are a large response."""

    async def ask(node_id: int, _items: list[str]) -> Answers[str, ClusterDescription]:
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        reply = await driver.client.send(node_id, request, MetadataResponse)
        nodes = (BrokerNode(each.node_id, each.host, each.port, each.rack) for each in reply.brokers)
        return {"": ClusterDescription(reply.cluster_id or "", reply.controller_id, tuple(sorted(nodes)))}

    return (await driver.run([""], driver.to_any, ask))[""]


async def list_topics(driver: Driver, *, include_internal: bool) -> list[TopicListing]:
    """All topics, by name."""

    async def ask(node_id: int, _items: list[str]) -> Answers[str, list[TopicListing]]:
        reply = await driver.client.send(node_id, MetadataRequest(topics=None), MetadataResponse)
        found = [
            TopicListing(topic.name or "", topic.topic_id, topic.is_internal, len(topic.partitions))
            for topic in reply.topics
        ]
        return {"": sorted(topic for topic in found if include_internal or not topic.is_internal)}

    return (await driver.run([""], driver.to_any, ask))[""]


async def describe_topics(driver: Driver, names: Iterable[str]) -> dict[str, TopicDescription]:
    """The partitions of topics."""

    async def ask(node_id: int, items: list[str]) -> Answers[str, TopicDescription]:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in items], allow_auto_topic_creation=False
        )
        reply = await driver.client.send(node_id, request, MetadataResponse)
        return {
            topic.name or "": answer_of(topic.error_code, None, _description(topic), f"topic {topic.name!r}")
            for topic in reply.topics
        }

    return await driver.run(list(names), driver.to_any, ask)


async def describe_all_topics(driver: Driver, *, include_internal: bool) -> dict[str, TopicDescription]:
    """Every topic with its partitions, by name, in one request."""

    async def ask(node_id: int, _items: list[str]) -> Answers[str, dict[str, TopicDescription]]:
        reply = await driver.client.send(node_id, MetadataRequest(topics=None), MetadataResponse)
        topics = sorted(reply.topics, key=lambda topic: topic.name or "")
        return {
            "": {topic.name or "": _description(topic) for topic in topics if include_internal or not topic.is_internal}
        }

    return (await driver.run([""], driver.to_any, ask))[""]


async def create_topics(driver: Driver, topics: Iterable[NewTopic], *, validate_only: bool) -> dict[str, CreatedTopic]:
    """Make topics; when this returns, the controller has them."""
    wanted: dict[str, NewTopic] = {}
    for topic in topics:
        if not isinstance(topic, NewTopic):
            raise ValueError(f"{topic!r} is not a NewTopic")
        wanted[topic.name] = topic

    async def ask(node_id: int, items: list[str]) -> Answers[str, CreatedTopic]:
        request = CreateTopicsRequest(
            topics=[_creatable(wanted[name]) for name in items],
            timeout_ms=driver.client.settings.request_timeout_ms,
            validate_only=validate_only,
        )
        reply = await driver.client.send(node_id, request, CreateTopicsResponse)
        return {
            each.name: answer_of(
                each.error_code,
                each.error_message,
                CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor),
                f"topic {each.name!r}",
            )
            for each in reply.topics
        }

    return await driver.run(wanted, driver.to_controller, ask)


async def delete_topics(driver: Driver, names: Iterable[str]) -> None:
    """Remove topics and their records."""

    async def ask(node_id: int, items: list[str]) -> Answers[str, None]:
        # Versions up to 5 carry plain names, later ones entries that may hold an id instead.
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in items],
            topic_names=items,
            timeout_ms=driver.client.settings.request_timeout_ms,
        )
        reply = await driver.client.send(node_id, request, DeleteTopicsResponse)
        return {
            each.name or "": answer_of(each.error_code, each.error_message, None, f"topic {each.name!r}")
            for each in reply.responses
        }

    await driver.run(list(names), driver.to_controller, ask)


async def create_partitions(driver: Driver, totals: Mapping[str, int | NewPartitions], *, validate_only: bool) -> None:
    """Give topics more partitions."""
    wanted = {name: NewPartitions(total) if isinstance(total, int) else total for name, total in totals.items()}

    async def ask(node_id: int, items: list[str]) -> Answers[str, None]:
        request = CreatePartitionsRequest(
            topics=[_widened(name, wanted[name]) for name in items],
            timeout_ms=driver.client.settings.request_timeout_ms,
            validate_only=validate_only,
        )
        reply = await driver.client.send(node_id, request, CreatePartitionsResponse)
        return {
            each.name: answer_of(each.error_code, each.error_message, None, f"topic {each.name!r}")
            for each in reply.results
        }

    await driver.run(wanted, driver.to_controller, ask)


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
        for index, replicas in enumerate(topic.assignment)
    ]
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=name, value=_text(value)) for name, value in topic.configs.items()],
    )


def _widened(name: str, wanted: NewPartitions) -> CreatePartitionsTopic:
    new = [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in wanted.assignment]
    return CreatePartitionsTopic(name=name, count=wanted.total, assignments=new or None)


def _description(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
        )
        for each in sorted(topic.partitions, key=lambda part: part.partition_index)
    )
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, partitions)


def _text(value: object) -> str:
    """A setting as brokers take it; numbers and booleans are as good as their texts."""
    return str(value).lower() if isinstance(value, bool) else str(value)
