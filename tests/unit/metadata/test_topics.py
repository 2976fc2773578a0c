import pytest

from tests.unit.present import present
from tidelog.metadata.image import BrokerImage, ClusterImage
from tidelog.metadata.loading import load_image
from tidelog.metadata.registration import prepare_tree, register_broker
from tidelog.metadata.store import Store
from tidelog.metadata.topics import (
    delete_topic,
    mark_for_deletion,
    plan_adopted_topic,
    plan_partitions,
    plan_topic,
    topics_marked_for_deletion,
    write_partitions,
    write_topic,
)
from tidelog.metadata.tree import BrokerRegistration, Endpoint, decode_topic, encode_topic
from tidelog.testing.memory_store import MemoryStore
from tidelog.wire.errors import ApiError, ErrorCode


class Cluster:
    """A tree, and an image of it, with the brokers given."""

    def __init__(self, *broker_ids: int) -> None:
        self.store: Store = MemoryStore()
        prepare_tree(self.store)
        for broker_id in broker_ids:
            register_broker(self.store, BrokerRegistration(broker_id, (Endpoint("PLAINTEXT", "localhost", 9092),)))
        self.reload()

    def reload(self) -> None:
        self.image = load_image(self.store, "cluster")

    def create(self, name: str, count: int = -1, factor: int = -1, assignments=None, **options) -> None:  # type: ignore[no-untyped-def]
        write_topic(self.store, plan_topic(name, count, factor, assignments, {}, self.image, **options))
        self.reload()

    def replicas(self, name: str) -> list[tuple[int, ...]]:
        topic = self.image.topic(name)
        assert topic is not None
        return [partition.replicas for partition in topic.partitions]


def refusal(code: ErrorCode, message: str):  # type: ignore[no-untyped-def]
    return pytest.raises(ApiError, match=f"^{code.name}: {message}")


def test_a_topic_is_written_as_kafka_writes_it() -> None:
    cluster = Cluster(1, 2)
    topic = plan_topic("orders", 2, 2, None, {"retention.ms": "5"}, cluster.image, controller_epoch=4)
    write_topic(cluster.store, topic)
    written = decode_topic("orders", cluster.store.get("/brokers/topics/orders")[0])
    assert written.topic_id == topic.topic_id
    assert [partition.replicas for partition in written.partitions] == [(1, 2), (2, 1)]
    assert cluster.store.get("/config/topics/orders")[0] == b'{"version":1,"config":{"retention.ms":"5"}}'
    assert cluster.store.get("/brokers/topics/orders/partitions/1/state")[0] == (
        b'{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":0,"isr":[2,1]}'
    )


def test_the_image_of_a_plan_is_what_loading_the_tree_gives() -> None:
    cluster = Cluster(1, 2)
    topic = plan_topic("orders", 2, 2, None, {}, cluster.image)
    planned = topic.image()
    write_topic(cluster.store, topic)
    cluster.reload()
    loaded = cluster.image.topic("orders")
    assert loaded is not None
    assert (planned.name, planned.topic_id) == (loaded.name, loaded.topic_id)
    assert list(map(repr, planned.partitions)) == list(map(repr, loaded.partitions))
    assert [p.state_version for p in planned.partitions] == [p.state_version for p in loaded.partitions] == [0, 0]


def test_planning_changes_nothing() -> None:
    cluster = Cluster(1)
    plan_topic("orders", 2, 1, None, {}, cluster.image)
    assert cluster.store.children("/brokers/topics") == []


def test_minus_one_asks_for_the_defaults() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create("orders", default_partition_count=4, default_replication_factor=2)
    assert [len(replicas) for replicas in cluster.replicas("orders")] == [2, 2, 2, 2]


def test_every_topic_has_an_id_of_its_own() -> None:
    cluster = Cluster(1)
    cluster.create("a")
    cluster.create("b")
    assert present(cluster.image.topic("a")).topic_id != present(cluster.image.topic("b")).topic_id


def test_replicas_go_where_the_request_says() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create("orders", assignments={1: [3, 1], 0: [2, 3]})
    assert cluster.replicas("orders") == [(2, 3), (3, 1)]


def test_the_first_replica_alive_leads_and_the_dead_are_not_in_sync() -> None:
    """As in Kafka, a request may name brokers that are not there."""
    cluster = Cluster(1, 2)
    cluster.create("orders", assignments={0: [9, 2, 1]})
    (partition,) = present(cluster.image.topic("orders")).partitions
    assert (partition.leader_id, partition.isr, partition.offline_replicas) == (2, (2, 1), (9,))


@pytest.mark.parametrize(
    ("count", "factor", "assignments", "code", "message"),
    [
        (0, 1, None, ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (-2, 1, None, ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (2**31 - 1, 1, None, ErrorCode.INVALID_PARTITIONS, "Number of partitions 2147483647 is above 100000."),
        (1, 0, None, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
        (1, 3, None, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor: 3 larger than available brokers: 2."),
        (1, -1, {0: [1]}, ErrorCode.INVALID_REQUEST, "Both numPartitions or replicationFactor"),
        (-1, 1, {0: [1]}, ErrorCode.INVALID_REQUEST, "Both numPartitions or replicationFactor"),
        (-1, -1, {1: [1]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based"),
        (-1, -1, {0: [1], 2: [1]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based"),
        (-1, -1, {-1: [1], 0: [1]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based"),
        (-1, -1, {0: [1], 1: [1, 2]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "All partitions should have the same"),
        (
            -1,
            -1,
            {0: [1], 1: [8]},
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            r"Partition 1 is assigned to brokers \[8\], none",
        ),
        (-1, -1, {0: [1, 1]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Duplicate replica assignment"),
        (-1, -1, {0: []}, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Cannot have replication factor of 0"),
        (
            -1,
            -1,
            {0: [-5]},
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Partition id 0 is assigned to the negative broker id",
        ),
    ],
)
def test_what_cannot_be_created_is_refused_in_kafkas_words(count, factor, assignments, code, message) -> None:  # type: ignore[no-untyped-def]
    with refusal(code, message):
        plan_topic("orders", count, factor, assignments, {}, Cluster(1, 2).image)


def test_no_broker_alive_means_no_topic() -> None:
    with refusal(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor: 1 larger than available brokers: 0."):
        plan_topic("orders", 1, 1, None, {}, ClusterImage("cluster"))


def test_names_that_are_taken_illegal_or_too_similar_are_refused() -> None:
    cluster = Cluster(1)
    cluster.create("my.topic")
    with refusal(ErrorCode.TOPIC_ALREADY_EXISTS, r"Topic 'my\.topic' already exists\."):
        plan_topic("my.topic", 1, 1, None, {}, cluster.image)
    with refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, r"Topic 'my_topic' collides with existing topics: my\.topic"):
        plan_topic("my_topic", 1, 1, None, {}, cluster.image)
    with refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"):
        plan_topic("my topic", 1, 1, None, {}, cluster.image)


def test_of_two_that_create_the_same_topic_the_second_gets_an_error() -> None:
    cluster = Cluster(1)
    first, second = (plan_topic("orders", 3, 1, None, {}, cluster.image) for _ in range(2))
    write_topic(cluster.store, first)
    with refusal(ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'orders' already exists."):
        write_topic(cluster.store, second)
    cluster.reload()
    assert present(cluster.image.topic("orders")).topic_id == first.topic_id


def test_settings_left_behind_by_a_topic_of_the_same_name_are_replaced() -> None:
    cluster = Cluster(1)
    cluster.store.create("/config/topics/orders", b'{"version":1,"config":{"retention.ms":"1"}}')
    cluster.create("orders")
    assert cluster.store.get("/config/topics/orders")[0] == b'{"version":1,"config":{}}'


def test_an_adopted_topic_keeps_its_id_and_its_leader_epochs() -> None:
    cluster = Cluster(1)
    write_topic(cluster.store, plan_adopted_topic("orders", b"i" * 16, {0: 5, 2: 7}, 1))
    cluster.reload()
    topic = cluster.image.topic_by_id(b"i" * 16)
    assert topic is not None
    assert [(p.leader_id, p.leader_epoch, p.isr) for p in topic.partitions] == [
        (1, 5, (1,)),
        (1, 0, (1,)),
        (1, 7, (1,)),
    ]


def test_partitions_are_added_after_the_last() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create("orders", 2, 2, start_index=1, follower_shift=1)
    before = cluster.replicas("orders")
    new = plan_partitions(cluster.store, cluster.image.broker_ids(), "orders", 5, None)
    write_partitions(cluster.store, new)
    topic_id = present(cluster.image.topic("orders")).topic_id
    cluster.reload()
    assert cluster.replicas("orders")[:2] == before
    assert present(cluster.image.topic("orders")).topic_id == topic_id
    added = present(cluster.image.topic("orders")).partitions[2:]
    assert [partition.index for partition in added] == [2, 3, 4]
    assert list(map(repr, new.images())) == list(map(repr, added))
    assert all(partition.leader_id == partition.replicas[0] for partition in added)
    assert len({replicas[0] for replicas in cluster.replicas("orders")[:3]}) == 3, "leaders still go round"


def test_added_partitions_go_where_the_request_says() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create("orders", 1, 2)
    write_partitions(cluster.store, plan_partitions(cluster.store, cluster.image.broker_ids(), "orders", 2, [[3, 1]]))
    cluster.reload()
    assert cluster.replicas("orders")[1] == (3, 1)


@pytest.mark.parametrize(
    ("total", "assignments", "code", "message"),
    [
        (
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (-1, None, ErrorCode.INVALID_PARTITIONS, "Topic currently has 2 partitions, which is higher"),
        (2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        (2**31 - 1, None, ErrorCode.INVALID_PARTITIONS, "Number of partitions 2147483647 is above"),
        (3, [[1], [2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Increasing the number of partitions by 1 but 2 assign"),
        (3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Increasing the number of partitions by 1 but 0 assign"),
        (3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, r"Unknown broker\(s\) in replica assignment: 9\."),
        (3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Inconsistent replication factor between partitions"),
        (3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Cannot have replication factor of 0 for partition id 2"),
    ],
)
def test_partitions_that_cannot_be_added_are_refused_in_kafkas_words(total, assignments, code, message) -> None:  # type: ignore[no-untyped-def]
    cluster = Cluster(1, 2)
    cluster.create("orders", 2, 1)
    with refusal(code, message):
        plan_partitions(cluster.store, cluster.image.broker_ids(), "orders", total, assignments)


def test_a_topic_that_is_missing_leaving_or_moving_gets_no_partitions() -> None:
    cluster = Cluster(1)
    with refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'orders' does not exist."):
        plan_partitions(cluster.store, cluster.image.broker_ids(), "orders", 2, None)
    cluster.create("orders")
    assignment = decode_topic("orders", cluster.store.get("/brokers/topics/orders")[0])
    moving = assignment._replace(partitions=(assignment.partitions[0]._replace(adding=(2,)),))
    cluster.store.set("/brokers/topics/orders", encode_topic(moving))
    with refusal(ErrorCode.REASSIGNMENT_IN_PROGRESS, "A partition reassignment is in progress"):
        plan_partitions(cluster.store, cluster.image.broker_ids(), "orders", 2, None)
    mark_for_deletion(cluster.store, "orders")
    with refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion."):
        plan_partitions(cluster.store, cluster.image.broker_ids(), "orders", 2, None)


def test_partitions_planned_on_an_assignment_that_has_changed_are_refused() -> None:
    cluster = Cluster(1)
    cluster.create("orders")
    first, second = (plan_partitions(cluster.store, cluster.image.broker_ids(), "orders", 2, None) for _ in range(2))
    write_partitions(cluster.store, first)
    with refusal(ErrorCode.INVALID_PARTITIONS, "The topic 'orders' was changed meanwhile"):
        write_partitions(cluster.store, second)


def test_a_deleted_topic_leaves_nothing_in_the_tree() -> None:
    cluster = Cluster(1)
    cluster.create("orders", 3)
    cluster.create("other")
    mark_for_deletion(cluster.store, "orders")
    mark_for_deletion(cluster.store, "orders")
    assert topics_marked_for_deletion(cluster.store) == ["orders"]
    delete_topic(cluster.store, "orders")
    assert cluster.store.children("/brokers/topics") == ["other"]
    assert cluster.store.children("/config/topics") == ["other"]
    assert topics_marked_for_deletion(cluster.store) == []
    delete_topic(cluster.store, "orders")
    with refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'orders' does not exist."):
        mark_for_deletion(cluster.store, "orders")


def test_a_topic_created_again_has_a_new_id() -> None:
    cluster = Cluster(1)
    cluster.create("orders")
    old = present(cluster.image.topic("orders")).topic_id
    delete_topic(cluster.store, "orders")
    cluster.reload()
    cluster.create("orders")
    assert present(cluster.image.topic("orders")).topic_id != old


def test_a_broker_without_the_image_of_another_is_still_alive_for_placement() -> None:
    """Placement goes by the image, in the order of ids, whatever order brokers came in."""
    image = ClusterImage("cluster")
    for broker_id in (3, 1, 2):
        image.set_broker(BrokerImage(broker_id, {}))
    topic = plan_topic("orders", 3, 1, None, {}, image)
    assert topic.replicas == ((1,), (2,), (3,))
