import pytest

from tests.unit.present import present
from tidelog.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.metadata.tree import BrokerRegistration, Endpoint, PartitionState, ReplicaAssignment
from tidelog.wire.primitives import NO_UUID

ID_A, ID_B = b"a" * 16, b"b" * 16


def broker(broker_id: int) -> BrokerImage:
    return BrokerImage.of(BrokerRegistration(broker_id, (Endpoint("CLIENT", f"host{broker_id}", 9092),), "r1"), 42)


def topic(name: str, topic_id: bytes = ID_A, replicas: tuple[int, ...] = (1, 2), count: int = 2) -> TopicImage:
    return TopicImage(
        name, topic_id, [PartitionImage(index, replicas[0], 0, replicas, replicas) for index in range(count)]
    )


@pytest.fixture
def image() -> ClusterImage:
    image = ClusterImage("cluster")
    image.set_broker(broker(1))
    return image


def test_a_broker_is_known_by_the_address_of_each_listener() -> None:
    known = broker(1)
    assert known.endpoint("CLIENT") == Endpoint("CLIENT", "host1", 9092)
    assert known.endpoint("OTHER") is None
    assert (known.rack, known.epoch) == ("r1", 42)


def test_brokers_are_listed_by_id(image: ClusterImage) -> None:
    image.set_broker(broker(12))
    image.set_broker(broker(2))
    assert image.broker_ids() == [each.broker_id for each in image.brokers()] == [1, 2, 12]
    assert image.broker(2) == broker(2)
    assert image.broker(3) is None


def test_a_topic_is_found_by_name_and_by_id(image: ClusterImage) -> None:
    orders = topic("orders")
    image.set_topic(orders)
    assert image.topic("orders") is image.topic_by_id(ID_A) is orders
    assert image.topic_name(ID_A) == "orders"
    assert list(image.topics()) == [orders]
    assert image.topic("x") is image.topic_by_id(ID_B) is image.topic_name(ID_B) is None


def test_partitions_are_found_by_their_index_and_no_other(image: ClusterImage) -> None:
    image.set_topic(topic("orders"))
    found = image.partition("orders", 1)
    assert found is not None
    assert found.index == 1
    assert image.partition("orders", 2) is image.partition("orders", -1) is image.partition("x", 0) is None


def test_every_change_raises_the_version(image: ClusterImage) -> None:
    changes = [
        lambda: image.set_controller(1, 1),
        lambda: image.set_broker(broker(2)),
        lambda: image.set_topic(topic("orders")),
        lambda: image.set_partition("orders", PartitionImage(0, 2, 1, (1, 2), (2,))),
        lambda: image.remove_broker(2),
        lambda: image.remove_topic("orders"),
    ]
    for change in changes:
        before = image.version
        change()
        assert image.version > before
    before = image.version
    image.remove_broker(99)
    assert image.remove_topic("x") is None
    assert image.version == before


def test_replicas_are_offline_while_their_broker_is_away(image: ClusterImage) -> None:
    image.set_topic(topic("orders", replicas=(1, 2)))
    assert present(image.partition("orders", 0)).offline_replicas == (2,)
    image.set_broker(broker(2))
    assert present(image.partition("orders", 0)).offline_replicas == ()
    image.remove_broker(1)
    assert present(image.partition("orders", 1)).offline_replicas == (1,)


def test_a_replica_in_a_failed_directory_is_offline_though_its_broker_lives(image: ClusterImage) -> None:
    image.set_topic(topic("orders", replicas=(1,)))
    image.set_partition("orders", PartitionImage(0, -1, 1, (1,), (1,), failed_replicas=(1,)))
    assert present(image.partition("orders", 0)).offline_replicas == (1,)
    assert present(image.partition("orders", 1)).offline_replicas == ()


def test_a_removed_topic_is_gone_under_name_and_id(image: ClusterImage) -> None:
    image.set_topic(topic("orders"))
    assert present(image.remove_topic("orders")).name == "orders"
    assert image.topic("orders") is image.topic_by_id(ID_A) is None
    assert image.topic_count() == 0


def test_a_topic_created_again_is_not_found_under_its_old_id(image: ClusterImage) -> None:
    image.set_topic(topic("orders", ID_A))
    image.set_topic(topic("orders", ID_B, count=3))
    assert image.topic_by_id(ID_A) is None
    assert len(present(image.topic_by_id(ID_B)).partitions) == 3
    assert image.topic_count() == 1


def test_a_topic_without_an_id_is_found_by_name_only(image: ClusterImage) -> None:
    image.set_topic(topic("old", NO_UUID))
    assert image.topic("old") is not None
    assert image.topic_by_id(NO_UUID) is None


def test_names_that_differ_in_dots_and_underscores_collide(image: ClusterImage) -> None:
    image.set_topic(topic("a.b_c", ID_A))
    image.set_topic(topic("abc", ID_B))
    assert image.colliding_topics("a_b.c") == ["a.b_c"]
    assert image.colliding_topics("a.b_c") == []
    assert image.colliding_topics("abc") == []
    image.remove_topic("a.b_c")
    assert image.colliding_topics("a_b.c") == []


def test_internal_topics_are_marked() -> None:
    assert topic("__consumer_offsets").is_internal
    assert not topic("orders").is_internal


def test_a_partition_that_never_had_a_leader_has_none() -> None:
    partition = PartitionImage.of(0, ReplicaAssignment((5,)), None)
    assert (partition.leader_id, partition.leader_epoch, partition.isr, partition.state_version) == (-1, -1, (), -1)
    led = PartitionImage.of(0, ReplicaAssignment((5, 6)), PartitionState(6, 3, (6,), 1), 9)
    assert (led.leader_id, led.leader_epoch, led.isr, led.state_version) == (6, 3, (6,), 9)


def test_partitions_out_of_place_are_a_broken_invariant() -> None:
    with pytest.raises(AssertionError, match="has partition 1 where 0 belongs"):
        TopicImage("t", ID_A, [PartitionImage(1, 1, 0, (1,), (1,))])
