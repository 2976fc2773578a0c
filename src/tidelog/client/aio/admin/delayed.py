"""Records that wait for their time, which only Tidelog's brokers have."""

from collections.abc import Collection
from typing import Final, TypeVar

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import DelayedListing, DelayedRecord
from tidelog.client.errors import ConnectionLost, UnsupportedByBroker
from tidelog.client.types import TopicPartition
from tidelog.wire.own_messages import (
    AlterDelayedRecordsRequest,
    AlterDelayedRecordsResponse,
    ListDelayedRecordsRequest,
    ListDelayedRecordsResponse,
    OwnApiKey,
)
from tidelog.wire.schema import Message

CANCEL: Final = -1
Response = TypeVar("Response", bound=Message)


async def list_delayed(
    driver: Driver, topic: str, partitions: Collection[int], key: bytes | None, *, limit: int
) -> dict[int, DelayedListing]:
    """What waits in each partition, the next due first."""

    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, DelayedListing]:
        request = ListDelayedRecordsRequest(
            topic=topic, partitions=[each.partition for each in items], key=key, of_key=key is not None, limit=limit
        )
        reply = await _send(driver, node_id, request, ListDelayedRecordsResponse, OwnApiKey.LIST_DELAYED_RECORDS)
        return {
            TopicPartition(topic, each.partition_index): answer_of(
                each.error_code,
                each.error_message,
                DelayedListing(
                    each.waiting,
                    tuple(
                        DelayedRecord(
                            found.deliver_at_ms, each.partition_index, found.offset, found.key, found.value_bytes
                        )
                        for found in each.records
                    ),
                ),
                f"{topic}-{each.partition_index}",
            )
            for each in reply.partitions
        }

    wanted = [TopicPartition(topic, index) for index in partitions]
    return {where.partition: found for where, found in (await driver.run(wanted, driver.to_leader, ask)).items()}


async def alter_delayed(
    driver: Driver,
    topic: str,
    partitions: Collection[int],
    deliver_at_ms: int,
    *,
    key: bytes | None,
    offset: int | None,
) -> int:
    """Give records that wait another time, or cancel them; how many."""

    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, int]:
        request = AlterDelayedRecordsRequest(
            topic=topic,
            partitions=[each.partition for each in items],
            key=key,
            of_key=key is not None,
            offset=-1 if offset is None else offset,
            deliver_at_ms=deliver_at_ms,
        )
        reply = await _send(driver, node_id, request, AlterDelayedRecordsResponse, OwnApiKey.ALTER_DELAYED_RECORDS)
        return {
            TopicPartition(topic, each.partition_index): answer_of(
                each.error_code, each.error_message, each.changed, f"{topic}-{each.partition_index}"
            )
            for each in reply.partitions
        }

    wanted = [TopicPartition(topic, index) for index in partitions]
    return sum((await driver.run(wanted, driver.to_leader, ask)).values())


async def _send(
    driver: Driver, node_id: int, request: Message, response: type[Response], api_key: OwnApiKey
) -> Response:
    connection = await driver.client.link(node_id).acquire()
    # Brokers do not list this API, so that other clients see exactly what a Kafka broker lists.
    connection.served.setdefault(api_key, (0, 0))
    try:
        return await connection.send(request, response)
    except ConnectionLost as error:
        raise UnsupportedByBroker(
            f"the broker at {connection.address} has no delayed records: it closed the connection, "
            "as brokers other than Tidelog do"
        ) from error
