"""A single broker and a controller check and plan topics the same way, and write what the other would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.broker.cluster_topics import ClusterTopics
from tidelog.broker.topic_planning import plan_new_topic
from tidelog.broker.topic_service import TopicChanges, TopicService
from tidelog.config.layers import ConfigLayers
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.loading import load_image
from tidelog.metadata.registration import prepare_tree, register_broker
from tidelog.metadata.topics import plan_topic, write_topic
from tidelog.metadata.tree import BrokerRegistration, Endpoint, decode_topic
from tidelog.testing.memory_store import MemoryStore
from tidelog.wire.errors import ApiError, ErrorCode


class Calls:
    """Runs functions at once, and counts those that a thread would run."""

    def __init__(self, *before: Any) -> None:
        self._before = before
        self.count = 0

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return function(*self._before, *args, **kwargs)

    run_alone = run


class Slices:
    async def run(self, steps: Any) -> None:
        for _ in steps:
            pass


class Logs:
    """No log is there, and none can be opened."""

    def get_log(self, _topic: str, _index: int) -> None:
        return None

    def get_or_create_log(self, *_: Any, **__: Any) -> None:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "no log in this test")


def make_node(brokers: int = 1) -> Any:
    store = MemoryStore()
    prepare_tree(store)
    for broker_id in range(brokers):
        register_broker(store, BrokerRegistration(broker_id, (Endpoint("PLAINTEXT", "localhost", 9092),)))
    write_topic(store, plan_topic("old", 2, 1, None, {}, load_image(store, "cluster")))
    return SimpleNamespace(
        broker_id=0,
        store=store,
        image=load_image(store, "cluster"),
        config=ConfigLayers({}).config,
        surroundings=SimpleNamespace(random=Random(7)),
        metadata=Calls(store),
        background=Calls(),
        slices=Slices(),
        log_manager=Logs(),
        replica_manager=SimpleNamespace(add_offline=lambda *_: None),
    )


def of_a_single_broker(node: Any) -> TopicChanges:
    return TopicService(node)


def of_a_controller(node: Any) -> TopicChanges:
    nothing: Any = None
    controller: Any = SimpleNamespace(is_active=True)
    return ClusterTopics(node, controller, nothing, nothing)


KINDS = pytest.mark.parametrize("make", [of_a_single_broker, of_a_controller])

Change = Callable[[TopicChanges], Coroutine[Any, Any, object]]

REFUSED: dict[str, tuple[Change, ErrorCode]] = {
    "a name that is taken": (lambda to: to.create("old", 1, 1, None, {}), ErrorCode.TOPIC_ALREADY_EXISTS),
    "an invalid name": (lambda to: to.create("a/b", 1, 1, None, {}), ErrorCode.INVALID_TOPIC_EXCEPTION),
    "no partition": (lambda to: to.create("t", 0, 1, None, {}), ErrorCode.INVALID_PARTITIONS),
    "too many replicas": (lambda to: to.create("t", 1, 2, None, {}), ErrorCode.INVALID_REPLICATION_FACTOR),
    "an unknown setting": (lambda to: to.create("t", 1, 1, None, {"no.such": "1"}), ErrorCode.INVALID_CONFIG),
    # As in Kafka, replicas are placed before settings are looked at.
    "too many replicas and an unknown setting": (
        lambda to: to.create("t", 1, 2, None, {"no.such": "1"}),
        ErrorCode.INVALID_REPLICATION_FACTOR,
    ),
    "growing to fewer": (lambda to: to.add_partitions("old", 1, None), ErrorCode.INVALID_PARTITIONS),
    "growing on an unknown broker": (
        lambda to: to.add_partitions("old", 3, [[9]]),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ),
    "growing what is not there": (lambda to: to.add_partitions("t", 3, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "growing the path of a partition": (
        lambda to: to.add_partitions("old/partitions", 3, None),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "deleting what is not there": (lambda to: to.delete("t"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "an automatic internal topic": (
        lambda to: to.create_automatically("__consumer_offsets"),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    "an automatic topic of an invalid name": (
        lambda to: to.create_automatically("a b"),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ),
}


@KINDS
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused_alike_and_changes_nothing(make: Any, case: str) -> None:
    node = make_node()
    change, code = REFUSED[case]
    before = node.store.children("/brokers/topics"), node.store.get("/brokers/topics/old")
    with pytest.raises(ApiError) as refusal:
        asyncio.run(change(make(node)))
    assert refusal.value.code is code
    assert (node.store.children("/brokers/topics"), node.store.get("/brokers/topics/old")) == before


@KINDS
def test_a_topic_is_written_with_its_placement_and_its_settings(make: Any) -> None:
    node = make_node(brokers=3)
    made = asyncio.run(make(node).create("new", 4, 2, None, {"retention.ms": "5"}))
    written = decode_topic("new", node.store.get("/brokers/topics/new")[0])
    assert written.topic_id == made.topic_id
    assert [each.replicas for each in written.partitions] == [each.replicas for each in made.partitions]
    assert node.store.get("/config/topics/new")[0] == b'{"version":1,"config":{"retention.ms":"5"}}'


def test_both_place_replicas_by_the_same_chance() -> None:
    placed = []
    for make in (of_a_single_broker, of_a_controller):
        topic = asyncio.run(make(make_node(brokers=3)).create("new", 6, 2, None, {}))
        placed.append((topic.topic_id, [each.replicas for each in topic.partitions]))
    assert placed[0] == placed[1]


@KINDS
def test_what_is_only_validated_leaves_no_trace(make: Any) -> None:
    node = make_node()
    topics = make(node)
    assert len(asyncio.run(topics.create("new", 3, 1, None, {}, validate_only=True)).partitions) == 3
    asyncio.run(topics.add_partitions("old", 5, None, validate_only=True))
    assert node.store.children("/brokers/topics") == ["old"]
    assert len(decode_topic("old", node.store.get("/brokers/topics/old")[0]).partitions) == 2


def test_a_controller_leaves_the_states_of_partitions_to_its_elections() -> None:
    node = make_node()
    topics = of_a_controller(node)
    asyncio.run(topics.create("new", 2, 1, None, {}))
    asyncio.run(topics.add_partitions("old", 3, None))
    assert node.store.exists("/brokers/topics/new/partitions") is None
    assert node.store.exists("/brokers/topics/old/partitions/2") is None


def test_a_single_broker_writes_the_states_of_partitions() -> None:
    node = make_node()
    topics = of_a_single_broker(node)

    async def work() -> None:
        await topics.create("new", 2, 1, None, {})
        await topics.add_partitions("old", 3, None)

    asyncio.run(work())
    assert node.store.exists("/brokers/topics/new/partitions/1/state") is not None
    assert node.store.exists("/brokers/topics/old/partitions/2/state") is not None


@pytest.mark.parametrize(("count", "on_a_thread"), [(500, 0), (501, 2)])
def test_many_partitions_are_planned_on_a_thread(count: int, on_a_thread: int) -> None:
    """Neither their placement nor their image is made on the event loop."""
    node = make_node()
    planned = asyncio.run(plan_new_topic(node, "new", count, 1, None, {}))
    assert len(planned.image.partitions) == count
    assert node.background.count == on_a_thread


def test_without_brokers_nothing_can_be_placed() -> None:
    node = make_node()
    node.image = ClusterImage("cluster")
    with pytest.raises(ApiError) as refusal:
        asyncio.run(plan_new_topic(node, "new", 1, 1, None, {}))
    assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
