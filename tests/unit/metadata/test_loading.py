import pytest

from tidelog.metadata.errors import MalformedNodeError
from tidelog.metadata.loading import load_image
from tidelog.metadata.registration import elect_controller, prepare_tree, register_broker
from tidelog.metadata.tree import BrokerRegistration, Endpoint
from tidelog.testing.memory_store import MemoryStore
from tidelog.wire.primitives import NO_UUID


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    prepare_tree(store)
    return store


def test_an_empty_tree_gives_an_empty_image(store: MemoryStore) -> None:
    image = load_image(store, "cluster")
    assert (image.cluster_id, image.controller_id, image.brokers(), image.topic_count()) == ("cluster", -1, [], 0)


def test_brokers_come_with_their_epoch_and_the_controller_is_known(store: MemoryStore) -> None:
    epoch = register_broker(store, BrokerRegistration(7, (Endpoint("PLAINTEXT", "h", 1),), "rack"))
    elect_controller(store, 7, 0)
    image = load_image(store, "cluster")
    assert image.controller_id == 7
    (broker,) = image.brokers()
    assert (broker.broker_id, broker.rack, broker.epoch) == (7, "rack", epoch)


def test_a_topic_as_an_old_kafka_left_it_is_read(store: MemoryStore) -> None:
    store.create("/brokers/topics/old", b'{"version":1,"partitions":{"0":[7]}}')
    topic = load_image(store, "cluster").topic("old")
    assert topic is not None
    assert topic.topic_id == NO_UUID
    assert [(p.leader_id, p.replicas, p.isr) for p in topic.partitions] == [(-1, (7,), ())]


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/brokers/topics/t", "/brokers/topics/t: malformed node"),
        ("/brokers/ids/1", "/brokers/ids/1: malformed node"),
        ("/brokers/ids/x", "its name is not a broker id"),
        ("/controller", "/controller: malformed node"),
    ],
)
def test_a_node_that_cannot_be_read_is_named(store: MemoryStore, path: str, complaint: str) -> None:
    store.create(path, b"rubbish")
    with pytest.raises(MalformedNodeError, match=complaint):
        load_image(store, "cluster")
