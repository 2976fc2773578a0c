"""Compaction on request, which only Tidelog's brokers serve."""

from collections.abc import Iterable

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import Compaction, TopicDescription
from tidelog.client.errors import ConnectionLost, UnsupportedByBroker
from tidelog.wire.own_messages import CompactTopic, CompactTopicsRequest, CompactTopicsResponse, OwnApiKey

Replica = tuple[int, int]
"""A partition, and a broker that has a replica of it."""


async def compact_topic(
    driver: Driver, topic: TopicDescription, partitions: Iterable[int], *, only_status: bool
) -> list[Compaction]:
    """Compact every replica of the partitions, or only return the progress."""
    wanted = set(partitions)
    replicas = [
        (each.partition, broker)
        for each in topic.partitions
        if each.partition in wanted
        for broker in each.replicas
        if broker in driver.client.metadata.nodes
    ]

    async def to_broker(replica: Replica) -> int:
        return await driver.to_broker(replica[1])

    async def ask(node_id: int, items: list[Replica]) -> Answers[Replica, Compaction]:
        request = CompactTopicsRequest(
            topics=[CompactTopic(name=topic.name, partitions=[partition for partition, _ in items])],
            only_status=only_status,
        )
        reply = await _send(driver, node_id, request)
        return {
            (each.partition_index, node_id): answer_of(
                each.error_code,
                each.error_message,
                Compaction(
                    each.partition_index,
                    node_id,
                    each.state,
                    each.error_message or "",
                    each.bytes_before,
                    each.bytes_after,
                    each.bytes_done,
                    each.bytes_total,
                ),
                f"{topic.name}-{each.partition_index}",
            )
            for topic in reply.topics
            for each in topic.partitions
        }

    return list((await driver.run(replicas, to_broker, ask)).values())


async def _send(driver: Driver, node_id: int, request: CompactTopicsRequest) -> CompactTopicsResponse:
    connection = await driver.client.link(node_id).acquire()
    # Brokers do not list this API, so that other clients see exactly what a Kafka broker lists.
    connection.served.setdefault(OwnApiKey.COMPACT_TOPICS, (0, 0))
    try:
        return await connection.send(request, CompactTopicsResponse)
    except ConnectionLost as error:
        raise UnsupportedByBroker(
            f"the broker at {connection.address} does not support compaction requests: it closed the connection, "
            "as brokers other than Tidelog do"
        ) from error
