"""A single broker and a controller check and plan topics the same way, and write what the other would."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.broker.configuration.current import CurrentSettings
from tidelog.broker.hosting.hosted_topics import HostedTopics
from tidelog.broker.topology.cluster_topics import ClusterTopics
from tidelog.broker.topology.own_topics import OwnTopics
from tidelog.broker.topology.topic_planning import TopicPlanner
from tidelog.broker.topology.topology import TopicChanges
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

    def __init__(self, *before: Any, is_reachable: bool = True) -> None:
        self._before = before
        self.is_reachable = is_reachable
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
    image, settings = load_image(store, "cluster"), CurrentSettings(ConfigLayers({}))
    base: Any = SimpleNamespace(background=Calls(), slices=Slices(), log_manager=Logs())
    replica_manager: Any = SimpleNamespace(add_offline=lambda *_: None)
    nothing: Any = None
    return SimpleNamespace(
        broker_id=0,
        store=store,
        image=image,
        settings=settings,
        base=base,
        metadata=Calls(store),
        replica_manager=replica_manager,
        topics=HostedTopics(
            settings, image, base.log_manager, replica_manager, nothing, nothing, base.background, base.slices
        ),
    )


def planner_of(node: Any) -> TopicPlanner:
    return TopicPlanner(node.settings, node.image, node.metadata, node.base.background, Random(7))


def of_a_single_broker(node: Any) -> TopicChanges:
    return OwnTopics(node, planner_of(node))


def of_a_controller(node: Any, *, is_active: bool = True) -> TopicChanges:
    nothing: Any = None
    controller: Any = SimpleNamespace(is_active=is_active)
    return ClusterTopics(node.settings, node.image, node.metadata, planner_of(node), controller, nothing)


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


@pytest.mark.parametrize(
    ("name", "count", "replicas", "settings"),
    [
        ("new", 4, 2, {}),
        ("__consumer_offsets", 5, 3, {"cleanup.policy": "compact"}),
        ("__transaction_state", 6, 3, {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
    ],
)
@pytest.mark.parametrize("is_controller", [False, True])
def test_any_broker_of_a_cluster_writes_what_is_created_automatically(
    is_controller: bool, name: str, count: int, replicas: int, settings: dict[str, str]
) -> None:
    node = make_node(brokers=3)
    node.settings.replace(
        ConfigLayers(
            {
                "num.partitions": "4",
                "default.replication.factor": "2",
                "offsets.topic.num.partitions": "5",
                "transaction.state.log.num.partitions": "6",
            }
        )
    )
    topics = of_a_controller(node, is_active=is_controller)
    asyncio.run(topics.create_automatically(name))
    # The image does not show the topic yet: a client that asks again changes nothing.
    written = node.store.get(f"/brokers/topics/{name}")
    asyncio.run(topics.create_automatically(name))
    assert node.store.get(f"/brokers/topics/{name}") == written
    assert [len(each.replicas) for each in decode_topic(name, written[0]).partitions] == [replicas] * count
    overrides = json.loads(node.store.get(f"/config/topics/{name}")[0])["config"]
    assert overrides.items() >= settings.items()


@pytest.mark.parametrize("name", ["new", "__consumer_offsets", "__transaction_state"])
def test_a_cluster_creates_nothing_automatically_with_fewer_replicas_than_it_should_have(name: str) -> None:
    node = make_node(brokers=2)
    node.settings.replace(ConfigLayers({"default.replication.factor": "3"}))
    with pytest.raises(ApiError) as refusal:
        asyncio.run(of_a_controller(node, is_active=False).create_automatically(name))
    assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert node.store.exists(f"/brokers/topics/{name}") is None


def test_while_the_tree_cannot_be_reached_no_request_waits_for_an_automatic_topic() -> None:
    node = make_node()
    node.metadata.is_reachable = False
    with pytest.raises(ApiError) as refusal:
        asyncio.run(of_a_controller(node).create_automatically("new"))
    assert refusal.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    assert node.metadata.count == 0


def test_a_topic_that_is_being_written_is_not_written_twice() -> None:
    node = make_node()
    topics = of_a_controller(node)

    async def work() -> None:
        go_on = asyncio.Event()
        run = node.metadata.run

        async def slow(*args: Any) -> Any:
            await go_on.wait()
            return await run(*args)

        node.metadata.run = slow
        first = asyncio.create_task(topics.create_automatically("new"))
        await asyncio.sleep(0)
        await topics.create_automatically("new")
        assert not first.done()
        go_on.set()
        await first

    asyncio.run(work())
    assert node.metadata.count == 1


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
    planned = asyncio.run(planner_of(node).plan_topic("new", count, 1, None, {}))
    assert len(planned.image.partitions) == count
    assert node.base.background.count == on_a_thread


def test_without_brokers_nothing_can_be_placed() -> None:
    node = make_node()
    node.image = ClusterImage("cluster")
    with pytest.raises(ApiError) as refusal:
        asyncio.run(planner_of(node).plan_topic("new", 1, 1, None, {}))
    assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
