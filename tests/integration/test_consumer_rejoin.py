"""A member that comes back to a group with committed offsets reads on, whatever comes last of what it has to know."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.consumer_support import GROUP_SETTINGS, PATIENCE_S, Cluster, at, values
from tidelog.client import AsyncConsumer, Consumer, OffsetAndMetadata, Producer
from tidelog.client.metrics import ConsumerMetrics
from tidelog.testing import Broker

POLL_S = 8.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Broker({**GROUP_SETTINGS, "auto.create.topics.enable": "false"}) as broker:
        yield Cluster(broker.bootstrap_servers)


class Pending:
    """A group whose committed offset of the one partition is in a transaction that is still open."""

    def __init__(self, cluster: Cluster) -> None:
        self.topic, self.group = cluster.topic(), cluster.group()
        cluster.write(self.topic, range(10))
        self.settings: dict[str, Any] = {**cluster.settings(group_id=self.group), "enable_auto_commit": False}
        self._producer = Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=self.group)
        self._producer.init_transactions()
        self._producer.begin()
        self._producer.send_offsets_to_transaction({at(self.topic): OffsetAndMetadata(5, "", 0)}, self.group)

    def commit_once_asked_twice(self, metrics: Callable[[], ConsumerMetrics]) -> None:
        """The second question comes after a back-off, when the metadata that joining asked for is there."""
        deadline = time.monotonic() + PATIENCE_S
        while _offset_fetches(metrics()) < 2:
            assert time.monotonic() < deadline, "the consumer does not ask for its committed offset"
            threading.Event().wait(0.01)
        self._producer.commit()

    def close(self) -> None:
        self._producer.close()


def _offset_fetches(metrics: ConsumerMetrics) -> int:
    asked = (each.by_api.get("OFFSET_FETCH") for each in metrics.brokers.values())
    return sum(each.replies for each in asked if each is not None)


@pytest.fixture
def pending(cluster: Cluster) -> Iterator[Pending]:
    made = Pending(cluster)
    try:
        yield made
    finally:
        made.close()


def test_one_poll_returns_what_waits(pending: Pending) -> None:
    with Consumer(**pending.settings) as consumer:
        consumer.subscribe([pending.topic])
        helper = threading.Thread(target=pending.commit_once_asked_twice, args=(consumer.metrics,))
        helper.start()
        assert values(consumer.poll(POLL_S)) == ["5", "6", "7", "8", "9"]
        helper.join(PATIENCE_S)


def test_one_poll_under_asyncio_returns_what_waits(pending: Pending) -> None:
    async def main() -> None:
        async with AsyncConsumer(**pending.settings) as consumer:
            await consumer.subscribe([pending.topic])
            committing = asyncio.create_task(asyncio.to_thread(pending.commit_once_asked_twice, consumer.metrics))
            assert values(await consumer.poll(POLL_S)) == ["5", "6", "7", "8", "9"]
            await committing

    asyncio.run(main())
