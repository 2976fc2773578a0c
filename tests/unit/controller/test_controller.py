"""The controller and its brokers, event by event, on a tree in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.controller.cluster import Cluster, expire, run
from tidelog.controller import events
from tidelog.controller.controller import event_of_watch
from tidelog.controller.environment import ControllerSettings
from tidelog.controller.events import ElectionTrigger, ElectionType
from tidelog.controller.states import PartitionStatus
from tidelog.metadata import paths
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.store import EventKind
from tidelog.metadata.tree import (
    ReplicaAssignment,
    TopicAssignment,
    encode_log_dir_event,
    encode_partition_state,
    encode_partitions,
    encode_reassignments,
    encode_topic,
)
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.leader_and_isr import LeaderAndIsrRequest
from tidelog.wire.messages.stop_replica import StopReplicaRequest
from tidelog.wire.messages.update_metadata import UpdateMetadataRequest
from tidelog.wire.partitions import TopicPartition


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers, of which broker 1 is controller."""
    cluster = Cluster(1, 2, 3)
    cluster.add_controller(1)
    cluster.settle()
    return cluster


# --- election ---


def test_the_first_controller_makes_the_nodes_that_kafka_makes(cluster: Cluster) -> None:
    node = json.loads(cluster.admin.get(paths.CONTROLLER)[0])
    assert node == {"version": 2, "brokerid": 1, "timestamp": "1700000000000", "kraftControllerEpoch": -1}
    assert cluster.admin.get(paths.CONTROLLER_EPOCH)[0] == b"1"
    assert json.loads(cluster.admin.get("/feature")[0]) == {"features": {}, "version": 2, "status": 1}
    assert cluster.active.epoch == 1


def test_of_two_candidates_one_is_elected_and_the_other_follows(cluster: Cluster) -> None:
    second = cluster.add_controller(2)
    cluster.settle()
    assert cluster.active.active_id == 1
    assert not second.controller.is_active
    assert second.controller.active_id == 1


def test_the_epoch_rises_with_each_election(cluster: Cluster) -> None:
    second = cluster.add_controller(2)
    cluster.settle()
    expire(cluster.candidates[0])
    cluster.settle()
    assert second.controller.is_active
    assert second.controller.epoch == 2
    assert not cluster.candidates[0].controller.is_active
    assert cluster.candidates[0].controller.context.topics == {}


def test_a_controller_that_stops_gives_the_controllership_away(cluster: Cluster) -> None:
    second = cluster.add_controller(2)
    cluster.settle()
    cluster.active.events.put(events.Shutdown())
    cluster.settle()
    assert second.controller.is_active


def test_an_old_controller_writes_nothing_and_resigns(cluster: Cluster) -> None:
    """The old controller has not noticed: its watches are late. Its first write is refused."""
    cluster.create_topic("orders", (1, 2))
    old = cluster.candidates[0]
    cluster.admin.delete(paths.CONTROLLER)
    while old.events.pop():
        continue
    new = cluster.add_controller(2)
    assert new.step()
    assert new.controller.is_active
    while old.events.pop():
        continue
    assert old.controller.is_active, "the test needs a controller that does not know"
    before = cluster.leadership("orders")
    old.events.put(
        events.ReplicaLeaderElection((TopicPartition("orders", 0),), ElectionType.UNCLEAN, ElectionTrigger.ADMIN)
    )
    old.events.put(events.ControlledShutdown(1, -1, events.Reply(lambda outcome: outcomes.append(outcome))))
    outcomes: list[object] = []
    while old.step() and not outcomes:
        continue
    assert cluster.leadership("orders") == before
    assert not old.controller.is_active
    assert isinstance(outcomes[0], ApiError)
    assert outcomes[0].code is ErrorCode.NOT_CONTROLLER


def test_requests_to_a_broker_that_is_not_controller_are_refused(cluster: Cluster) -> None:
    other = cluster.add_controller(2)
    cluster.settle()
    outcomes: list[object] = []
    other.events.put(events.ListReassignments(None, events.Reply(outcomes.append)))
    other.events.put(events.AllocateProducerIds(2, 0, events.Reply(outcomes.append)))
    cluster.settle()
    assert [isinstance(each, ApiError) and each.code for each in outcomes] == [ErrorCode.NOT_CONTROLLER] * 2


@pytest.mark.parametrize(
    ("path", "kind", "event"),
    [
        ("/controller", EventKind.DELETED, events.Reelect()),
        ("/controller", EventKind.CREATED, events.ControllerChange()),
        ("/brokers/ids", EventKind.CHILDREN, events.BrokerChange()),
        ("/brokers/ids/7", EventKind.CHANGED, events.BrokerModifications(7)),
        ("/brokers/topics", EventKind.CHILDREN, events.TopicChange()),
        ("/brokers/topics/orders", EventKind.CHANGED, events.PartitionModifications("orders")),
        ("/brokers/topics/orders", EventKind.DELETED, None),
        ("/admin/delete_topics", EventKind.CHILDREN, events.TopicDeletion()),
        ("/admin/reassign_partitions", EventKind.CREATED, events.TreeReassignment()),
        ("/admin/preferred_replica_election", EventKind.CREATED, events.ReplicaLeaderElection()),
        ("/isr_change_notification", EventKind.CHILDREN, events.IsrChangeNotification()),
        ("/log_dir_event_notification", EventKind.CHILDREN, events.LogDirEventNotification()),
    ],
)
def test_each_watch_becomes_its_event(path: str, kind: EventKind, event: events.Event | None) -> None:
    assert event_of_watch(path, kind) == event


# --- topics ---


def test_a_new_topic_gets_leaders_and_every_broker_learns_of_them(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3), (3, 1))
    assert cluster.led("orders", 0) == (2, (2, 3))
    assert cluster.led("orders", 1) == (3, (3, 1))
    assert cluster.leadership("orders").controller_epoch == 1
    follower = cluster.brokers[3].states[TopicPartition("orders", 0)]
    assert (follower.leader, follower.leader_epoch, follower.is_new) == (2, 0, True)
    assert cluster.brokers[1].logs == {TopicPartition("orders", 1)}
    for broker in cluster.brokers.values():
        assert broker.metadata == {
            TopicPartition("orders", 0): (2, 0, (2, 3)),
            TopicPartition("orders", 1): (3, 0, (3, 1)),
        }


def test_leader_and_isr_carries_what_version_7_wants(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    request = next(each for each in cluster.brokers[3].received if isinstance(each, LeaderAndIsrRequest))
    assert (request.controller_id, request.controller_epoch, request.is_kraft_controller) == (1, 1, False)
    assert request.broker_epoch == cluster.brokers[3].epoch
    assert [topic.topic_id for topic in request.topic_states] == [cluster.topic("orders").topic_id]
    assert [(each.broker_id, each.host_name, each.port) for each in request.live_leaders] == [(2, "host2", 9092)]
    (state,) = request.topic_states[0].partition_states
    assert (state.replicas, state.isr, state.partition_epoch, state.leader_recovery_state) == ([2, 3], [2, 3], 0, 0)
    assert request.encode(7)


def test_a_partition_whose_replicas_are_all_down_waits_for_one(cluster: Cluster) -> None:
    cluster.stop_broker(3)
    cluster.settle()
    cluster.create_topic("orders", (3,))
    assert cluster.active.context.partition_state(TopicPartition("orders", 0)) is PartitionStatus.NEW
    with pytest.raises(NoNodeError):
        cluster.leadership("orders")
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.led("orders") == (3, (3,))


def test_only_live_replicas_are_in_the_first_isr(cluster: Cluster) -> None:
    cluster.stop_broker(1)
    cluster.settle()
    cluster.create_topic("orders", (1, 2, 3))
    assert cluster.led("orders") == (2, (2, 3))


def test_a_topic_grows(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    topic = cluster.topic("orders")
    grown = TopicAssignment(topic.topic_id, (*topic.partitions, ReplicaAssignment((3, 2))))
    cluster.admin.set(paths.topic("orders"), encode_topic(grown))
    cluster.settle()
    assert cluster.led("orders", 1) == (3, (3, 2))
    assert cluster.leadership("orders", 0).leader_epoch == 0


def test_a_topic_that_has_no_id_gets_one(cluster: Cluster) -> None:
    cluster.admin.create(paths.topic("old"), encode_topic(TopicAssignment(None, (ReplicaAssignment((1,)),))))
    cluster.settle()
    topic_id = cluster.topic("old").topic_id
    assert topic_id is not None
    assert cluster.active.context.topic_names[topic_id] == "old"


# --- brokers come and go ---


def test_a_dead_leader_is_replaced_from_the_isr(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3, 1))
    cluster.stop_broker(2)
    cluster.settle()
    # One epoch for the new leader, one for the broker that leaves the ISR: it has left it already.
    assert cluster.led("orders") == (3, (3, 1))
    assert cluster.leadership("orders").leader_epoch == 1
    assert cluster.brokers[1].states[TopicPartition("orders", 0)].leader == 3
    assert cluster.brokers[1].metadata[TopicPartition("orders", 0)] == (3, 1, (3, 1))


def test_a_dead_follower_leaves_the_isr(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3, 1))
    cluster.stop_broker(3)
    cluster.settle()
    assert cluster.led("orders") == (2, (2, 1))


def test_the_last_of_the_isr_stays_in_it_without_a_leader(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.stop_broker(3)
    cluster.settle()
    cluster.stop_broker(2)
    cluster.settle()
    assert cluster.led("orders") == (-1, (2,))
    assert cluster.active.context.offline_partition_count() == 1
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.led("orders") == (-1, (2,)), "broker 3 was not in sync"
    cluster.start_broker(2)
    cluster.settle()
    assert cluster.led("orders") == (2, (2,))


def test_unclean_elections_happen_where_the_topic_allows_them(cluster: Cluster) -> None:
    for name, allowed in (("careful", "false"), ("careless", "true")):
        cluster.create_topic(name, (2, 3), config={"unclean.leader.election.enable": allowed})
    for broker_id in (3, 2):
        cluster.stop_broker(broker_id)
        cluster.settle()
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.led("careful") == (-1, (2,))
    assert cluster.led("careless") == (3, (3,))
    assert cluster.leadership("careless").recovery_state == 1
    assert cluster.brokers[3].states[TopicPartition("careless", 0)].leader_recovery_state == 1


def test_unclean_elections_begin_when_they_are_enabled_by_default(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    for broker_id in (3, 2):
        cluster.stop_broker(broker_id)
        cluster.settle()
    cluster.start_broker(3)
    cluster.settle()
    cluster.active.update_settings(ControllerSettings(unclean_leader_election_enable=True))
    cluster.settle()
    assert cluster.led("orders") == (3, (3,))


def test_a_broker_that_comes_back_is_sent_its_replicas_and_all_metadata(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.create_topic("other", (1, 2))
    cluster.stop_broker(3)
    cluster.settle()
    back = cluster.start_broker(3)
    cluster.settle()
    assert back.states[TopicPartition("orders", 0)].leader == 2
    assert not back.states[TopicPartition("orders", 0)].is_new
    assert back.metadata.keys() == {TopicPartition("orders", 0), TopicPartition("other", 0)}
    first = back.received[0]
    assert isinstance(first, UpdateMetadataRequest), "brokers must know each other before they follow each other"
    assert [each.id for each in first.live_brokers] == [1, 2, 3]


def test_a_broker_that_restarts_quickly_is_noticed_by_its_epoch(cluster: Cluster) -> None:
    """The watch fires once for both changes; only the epoch shows the restart."""
    cluster.create_topic("orders", (2, 3))
    controller = cluster.candidates[0]
    cluster.brokers[2].store.close()
    cluster.start_broker(2)
    while controller.step():
        continue
    assert cluster.led("orders") == (3, (3,))
    assert cluster.brokers[2].states[TopicPartition("orders", 0)].leader == 3


def test_a_broker_that_is_gone_is_not_elected_for_one_that_restarts(cluster: Cluster) -> None:
    """One look at the tree shows both. Elected in between, the broker that is gone would be the last in sync."""
    cluster.create_topic("orders", (2, 3))
    controller = cluster.candidates[0]
    cluster.brokers[3].store.close()
    cluster.brokers[2].store.close()
    cluster.start_broker(2)
    while controller.step():
        continue
    assert cluster.led("orders") == (2, (2,))


def test_a_broker_that_changes_its_address_is_announced(cluster: Cluster) -> None:
    node = cluster.admin.get(paths.broker(3))[0].replace(b"host3", b"elsewhere")
    cluster.admin.set(paths.broker(3), node)
    cluster.settle()
    last = cluster.brokers[1].received[-1]
    assert isinstance(last, UpdateMetadataRequest)
    assert [each.endpoints[0].host for each in last.live_brokers] == ["host1", "host2", "elsewhere"]


def test_replicas_in_a_failed_log_directory_lose_their_lead(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.create_topic("other", (2, 3))
    cluster.brokers[2].failed.add(TopicPartition("orders", 0))
    cluster.admin.create(f"{paths.LOG_DIR_EVENTS}/log_dir_event_", encode_log_dir_event(2), sequential=True)
    cluster.settle()
    assert cluster.led("orders") == (3, (3,))
    assert cluster.led("other") == (2, (2, 3))
    assert cluster.admin.children(paths.LOG_DIR_EVENTS) == []
    offline = [
        state.offline_replicas
        for request in cluster.brokers[1].received
        if isinstance(request, UpdateMetadataRequest)
        for topic in request.topic_states
        for state in topic.partition_states
        if topic.topic_name == "orders"
    ]
    assert offline[-1] == [2]


# --- controlled shutdown ---


def test_a_controlled_shutdown_moves_leaders_and_returns_what_is_left(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3, 1))
    cluster.create_topic("followed", (1, 2))
    cluster.create_topic("alone", (2,))
    epoch = cluster.brokers[2].epoch
    assert cluster.ask(lambda reply: events.ControlledShutdown(2, epoch, reply)) == []
    assert cluster.led("orders") == (3, (3, 1))
    assert cluster.led("followed") == (1, (1,))
    assert cluster.led("alone") == (2, (2,)), "no other replica could lead"
    assert TopicPartition("followed", 0) not in cluster.brokers[2].states
    assert TopicPartition("followed", 0) in cluster.brokers[2].logs, "it is stopped, not deleted"


def test_a_leader_that_cannot_be_moved_remains(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.stop_broker(3)
    cluster.settle()
    assert cluster.ask(lambda reply: events.ControlledShutdown(2, -1, reply)) == [TopicPartition("orders", 0)]


@pytest.mark.parametrize(
    ("broker_id", "age", "code"), [(9, 0, ErrorCode.BROKER_NOT_AVAILABLE), (2, 1, ErrorCode.STALE_BROKER_EPOCH)]
)
def test_a_controlled_shutdown_of_another_life_is_refused(
    cluster: Cluster, broker_id: int, age: int, code: ErrorCode
) -> None:
    outcome = cluster.ask(lambda reply: events.ControlledShutdown(broker_id, cluster.brokers[2].epoch - age, reply))
    assert outcome.code is code


# --- the ISR ---


def test_an_isr_is_written_and_announced(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2, 3))
    response = cluster.alter_isr("orders", (1, 2))
    (answer,) = response.topics[0].partitions
    assert (answer.error_code, answer.leader_id, answer.isr, answer.partition_epoch) == (0, 1, [1, 2], 1)
    assert cluster.led("orders") == (1, (1, 2))
    assert cluster.leadership("orders").leader_epoch == 0, "the ISR changes within a leader epoch"
    assert cluster.brokers[3].metadata[TopicPartition("orders", 0)] == (1, 0, (1, 2))


def test_a_repeated_request_for_an_isr_gets_the_same_answer(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2, 3))
    first = cluster.alter_isr("orders", (1, 2))
    again = cluster.alter_isr("orders", (1, 2), partition_epoch=0)
    assert again == first


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ({"topic_id": bytes(15) + b"\1"}, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_an_isr_of_an_outdated_leader_is_refused(cluster: Cluster, changes: dict[str, int], code: ErrorCode) -> None:
    cluster.create_topic("orders", (2, 1, 3))
    cluster.stop_broker(2)
    cluster.settle()
    before = cluster.leadership("orders")
    assert (before.leader_epoch, before.partition_epoch) == (1, 1)
    response = cluster.alter_isr("orders", (1,), **changes)
    assert [answer.error_code for answer in response.topics[0].partitions] == [code]
    assert cluster.leadership("orders") == before


def test_replicas_that_are_down_shutting_down_or_of_another_life_are_not_eligible(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2, 3))
    cluster.alter_isr("orders", (1,))
    cluster.ask(lambda reply: events.ControlledShutdown(3, -1, reply))
    assert cluster.alter_isr("orders", (1, 3)).topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    old = cluster.alter_isr("orders", (1, 3), version=1)
    assert old.topics[0].partitions[0].error_code == ErrorCode.OPERATION_NOT_ATTEMPTED
    cluster.brokers[2].epoch -= 1  # what the leader last heard
    assert cluster.alter_isr("orders", (1, 2)).topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_leader_of_another_life_changes_nothing(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    assert cluster.alter_isr("orders", (1,), broker_epoch=0).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_an_isr_that_a_leader_wrote_itself_is_taken_over(cluster: Cluster) -> None:
    """Brokers before AlterPartition write the node and leave a notice."""
    cluster.create_topic("orders", (1, 2, 3))
    state = cluster.leadership("orders")._replace(isr=(1, 3))
    cluster.admin.set(paths.partition_state("orders", 0), encode_partition_state(state.node()))
    notice = encode_partitions([("orders", 0)])
    cluster.admin.create(f"{paths.ISR_CHANGES}/isr_change_", notice, sequential=True)
    cluster.settle()
    assert cluster.active.context.leaderships[TopicPartition("orders", 0)].isr == (1, 3)
    assert cluster.brokers[2].metadata[TopicPartition("orders", 0)] == (1, 0, (1, 3))
    assert cluster.admin.children(paths.ISR_CHANGES) == []


# --- elections on request ---


def elect(cluster: Cluster, election_type: ElectionType, *partitions: TopicPartition) -> dict[TopicPartition, object]:
    results = cluster.ask(
        lambda reply: events.ReplicaLeaderElection(partitions, election_type, ElectionTrigger.ADMIN, reply)
    )
    return {key: each.code if isinstance(each, ApiError) else each for key, each in results.items()}


def test_preferred_leaders_are_elected_on_request(cluster: Cluster) -> None:
    moved, kept, gone, unknown = (TopicPartition(name, 0) for name in ("moved", "kept", "gone", "unknown"))
    cluster.create_topic("moved", (2, 1))
    cluster.create_topic("gone", (3, 1))
    cluster.create_topic("kept", (1, 2))
    for broker_id in (2, 3):
        cluster.stop_broker(broker_id)
        cluster.settle()
    cluster.start_broker(2)
    cluster.settle()
    cluster.alter_isr("moved", (1, 2))
    assert elect(cluster, ElectionType.PREFERRED, moved, kept, gone, unknown) == {
        moved: 2,
        kept: ErrorCode.ELECTION_NOT_NEEDED,
        gone: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert cluster.led("moved") == (2, (1, 2))


def test_an_unclean_leader_is_elected_on_request(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    cluster.create_topic("kept", (1,))
    for broker_id in (3, 2):
        cluster.stop_broker(broker_id)
        cluster.settle()
    orders, kept = TopicPartition("orders", 0), TopicPartition("kept", 0)
    assert elect(cluster, ElectionType.UNCLEAN, orders) == {orders: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    cluster.start_broker(3)
    cluster.settle()
    assert elect(cluster, ElectionType.UNCLEAN, orders, kept) == {orders: 3, kept: ErrorCode.ELECTION_NOT_NEEDED}


def test_preferred_leaders_are_elected_by_a_node_again_and_again(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 1))
    for _ in range(2):
        cluster.stop_broker(2)
        cluster.settle()
        cluster.start_broker(2)
        cluster.settle()
        cluster.alter_isr("orders", (1, 2))
        cluster.admin.create(paths.PREFERRED_ELECTION, encode_partitions([("orders", 0), ("unknown", 3)]))
        cluster.settle()
        assert cluster.led("orders") == (2, (1, 2))
        assert cluster.admin.exists(paths.PREFERRED_ELECTION) is None


def test_leaders_are_balanced_when_too_many_are_elsewhere(cluster: Cluster) -> None:
    cluster.create_topic("orders", *[(2, 1)] * 10)
    cluster.stop_broker(2)
    cluster.settle()
    cluster.start_broker(2)
    cluster.settle()
    for index in range(9):
        cluster.alter_isr("orders", (1, 2), index)
    assert cluster.candidates[0].balances == [5]
    cluster.active.events.put(events.AutoPreferredReplicaLeaderElection())
    cluster.settle()
    assert [cluster.led("orders", index)[0] for index in range(10)] == [2] * 9 + [1]
    assert cluster.candidates[0].balances == [5, 300]
    # One of ten is elsewhere: that is allowed.
    cluster.alter_isr("orders", (1, 2), 9)
    cluster.active.events.put(events.AutoPreferredReplicaLeaderElection())
    cluster.settle()
    assert cluster.led("orders", 9)[0] == 1


# --- producer ids ---


def test_producer_ids_are_given_out_in_blocks_of_a_thousand(cluster: Cluster) -> None:
    epoch = cluster.brokers[2].epoch
    first = cluster.ask(lambda reply: events.AllocateProducerIds(2, epoch, reply))
    second = cluster.ask(lambda reply: events.AllocateProducerIds(2, epoch, reply))
    assert (first.first, first.last, second.first) == (0, 999, 1000)
    assert cluster.ask(lambda reply: events.AllocateProducerIds(2, 0, reply)).code is ErrorCode.STALE_BROKER_EPOCH
    unknown = cluster.ask(lambda reply: events.AllocateProducerIds(9, 0, reply))
    assert unknown.code is ErrorCode.BROKER_ID_NOT_REGISTERED


# --- deletion ---


def test_a_topic_is_deleted_from_brokers_and_tree(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2), (2, 3), config={"retention.ms": "5"})
    cluster.create_topic("kept", (1, 2))
    cluster.delete_topic("orders")
    for broker in cluster.brokers.values():
        assert not [each for each in broker.logs if each.topic == "orders"]
        assert broker.metadata.keys() == {TopicPartition("kept", 0)}
    for path in (paths.topic("orders"), paths.config("topics", "orders"), paths.topic_deletion("orders")):
        assert cluster.admin.exists(path) is None
    assert "orders" not in cluster.active.context.topics
    deletions = [
        (state.leader_epoch, state.delete_partition)
        for request in cluster.brokers[1].received
        if isinstance(request, StopReplicaRequest)
        for topic in request.topic_states
        for state in topic.partition_states
    ]
    assert deletions == [(-2, False), (-2, True)]


def test_a_deleted_topic_may_be_created_again(cluster: Cluster) -> None:
    for _ in range(2):
        cluster.create_topic("orders", (1, 2))
        assert cluster.led("orders") == (1, (1, 2))
        cluster.delete_topic("orders")


def test_a_deletion_waits_for_a_broker_that_is_down(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2), (1, 3))
    cluster.stop_broker(3)
    cluster.settle()
    cluster.delete_topic("orders")
    assert cluster.admin.exists(paths.topic("orders")) is not None
    assert cluster.active.context.topics_ineligible_for_deletion == {"orders"}
    assert not cluster.brokers[1].logs
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is None
    assert not cluster.brokers[3].logs


def test_a_deletion_waits_for_a_broker_that_goes_down_meanwhile(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 3))
    cluster.brokers[3].is_stopped = True  # it does not answer, and is still registered
    cluster.delete_topic("orders")
    assert cluster.admin.exists(paths.topic("orders")) is not None
    cluster.stop_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is not None
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is None


def test_a_deletion_waits_for_a_log_directory_that_failed(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 3))
    cluster.brokers[3].failed.add(TopicPartition("orders", 0))
    cluster.delete_topic("orders")
    assert cluster.active.context.topics_ineligible_for_deletion == {"orders"}
    cluster.stop_broker(3)
    cluster.settle()
    cluster.brokers[3].failed.clear()
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is None


def test_topics_that_do_not_exist_are_not_deleted_for_ever(cluster: Cluster) -> None:
    cluster.delete_topic("unknown")
    assert cluster.admin.children(paths.DELETE_TOPICS) == []


def test_nothing_is_deleted_when_deletion_is_disabled() -> None:
    cluster = Cluster(1, settings=ControllerSettings(delete_topic_enable=False))
    cluster.add_controller(1)
    cluster.settle()
    cluster.create_topic("orders", (1,))
    cluster.delete_topic("orders")
    assert cluster.admin.children(paths.DELETE_TOPICS) == []
    assert cluster.brokers[1].logs == {TopicPartition("orders", 0)}


def test_a_topic_that_is_being_deleted_gets_no_partitions(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 3))
    cluster.stop_broker(3)
    cluster.settle()
    cluster.delete_topic("orders")
    before = cluster.topic("orders")
    grown = TopicAssignment(before.topic_id, (*before.partitions, ReplicaAssignment((2,))))
    cluster.admin.set(paths.topic("orders"), encode_topic(grown))
    cluster.settle()
    assert cluster.topic("orders") == before


# --- reassignment ---


def reassign(cluster: Cluster, *targets: tuple[TopicPartition, tuple[int, ...] | None]) -> dict[TopicPartition, object]:
    results = cluster.ask(lambda reply: events.ApiReassignment(dict(targets), reply))
    return {key: None if each is None else each.code for key, each in results.items()}


ORDERS = TopicPartition("orders", 0)


def test_a_partition_moves_step_by_step() -> None:
    cluster = Cluster(1, 2, 3, 4, 5, 6)
    cluster.add_controller(1)
    cluster.settle()
    cluster.create_topic("orders", (1, 2, 3))
    assert reassign(cluster, (ORDERS, (4, 5, 6))) == {ORDERS: None}
    under_way = ReplicaAssignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert cluster.assignment("orders") == under_way
    assert cluster.led("orders") == (1, (1, 2, 3))
    assert cluster.leadership("orders").leader_epoch == 1
    assert cluster.ask(lambda reply: events.ListReassignments(None, reply)) == {ORDERS: under_way}
    added = cluster.brokers[5].states[ORDERS]
    assert (added.leader, added.is_new, added.adding_replicas, added.removing_replicas) == (
        1,
        True,
        [4, 5, 6],
        [1, 2, 3],
    )

    cluster.alter_isr("orders", (1, 2, 3, 4, 5))
    assert cluster.assignment("orders") == under_way, "broker 6 is not in sync"

    cluster.alter_isr("orders", (1, 2, 3, 4, 5, 6))
    assert cluster.assignment("orders") == ReplicaAssignment((4, 5, 6))
    assert cluster.led("orders") == (4, (4, 5, 6))
    assert cluster.ask(lambda reply: events.ListReassignments((ORDERS,), reply)) == {}
    for broker_id in (1, 2, 3):
        assert not cluster.brokers[broker_id].logs
    assert cluster.brokers[4].states[ORDERS].leader == 4
    assert cluster.brokers[6].states[ORDERS].replicas == [4, 5, 6]
    assert cluster.brokers[2].metadata[ORDERS][0] == 4


def test_a_leader_that_stays_leads_on_in_a_new_epoch(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    reassign(cluster, (ORDERS, (3, 1)))
    cluster.alter_isr("orders", (1, 2, 3))
    assert cluster.assignment("orders") == ReplicaAssignment((3, 1))
    assert cluster.led("orders") == (1, (1, 3))


def test_replicas_can_be_reordered_and_dropped_at_once(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2, 3))
    reassign(cluster, (ORDERS, (3, 1)))
    assert cluster.assignment("orders") == ReplicaAssignment((3, 1))
    assert cluster.led("orders") == (1, (1, 3))
    assert not cluster.brokers[2].logs


def test_a_cancelled_reassignment_returns_to_where_it_came_from(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    reassign(cluster, (ORDERS, (1, 3)))
    assert ORDERS in cluster.brokers[3].logs
    assert reassign(cluster, (ORDERS, None)) == {ORDERS: None}
    assert set(cluster.assignment("orders").replicas) == {1, 2}
    assert not cluster.assignment("orders").is_being_reassigned
    assert not cluster.brokers[3].logs
    assert cluster.led("orders") == (1, (1, 2))


def test_a_reassignment_supplants_another(cluster: Cluster) -> None:
    cluster.start_broker(4)
    cluster.settle()
    cluster.create_topic("orders", (1, 2))
    reassign(cluster, (ORDERS, (1, 3)))
    reassign(cluster, (ORDERS, (1, 4)))
    assert cluster.assignment("orders") == ReplicaAssignment((1, 4, 2), (4,), (2,))
    assert not cluster.brokers[3].logs
    assert ORDERS in cluster.brokers[4].logs


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, -3), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_impossible_reassignments_are_refused(
    cluster: Cluster, target: tuple[int, ...] | None, code: ErrorCode
) -> None:
    cluster.create_topic("orders", (1, 2))
    before = cluster.snapshot()
    assert reassign(cluster, (ORDERS, target)) == {ORDERS: code}
    assert cluster.snapshot() == before
    unknown = TopicPartition("unknown", 0)
    assert reassign(cluster, (unknown, (1, 2))) == {unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_many_partitions_move_at_once(cluster: Cluster) -> None:
    cluster.create_topic("orders", *[(1, 2)] * 4)
    partitions = [TopicPartition("orders", index) for index in range(4)]
    reassign(cluster, *[(partition, (2, 3)) for partition in partitions])
    for index in reversed(range(4)):
        cluster.alter_isr("orders", (1, 2, 3), index)
    assert [cluster.assignment("orders", index) for index in range(4)] == [ReplicaAssignment((2, 3))] * 4
    assert not cluster.brokers[1].logs


def test_partitions_move_as_a_node_asks(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2), (1, 2))
    for target in ((2, 3), (1, 2)):
        request = {("orders", 0): target, ("orders", 7): target}
        cluster.admin.create(paths.REASSIGNMENTS, encode_reassignments(request))
        cluster.settle()
        assert cluster.admin.get(paths.REASSIGNMENTS)[0] == encode_reassignments({("orders", 0): target})
        cluster.alter_isr("orders", tuple(sorted({*cluster.leadership("orders").isr, *target})))
        assert cluster.admin.exists(paths.REASSIGNMENTS) is None
        assert cluster.assignment("orders") == ReplicaAssignment(target)


def test_a_reassignment_goes_on_when_its_broker_is_back(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2))
    reassign(cluster, (ORDERS, (1, 3)))
    cluster.stop_broker(3)
    cluster.settle()
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.brokers[3].states[ORDERS].leader == 1
    cluster.alter_isr("orders", (1, 2, 3))
    assert cluster.assignment("orders") == ReplicaAssignment((1, 3))


def test_a_topic_is_deleted_once_its_partitions_have_moved(cluster: Cluster) -> None:
    cluster.create_topic("orders", (1, 2), (1, 2))
    reassign(cluster, (ORDERS, (1, 3)), (TopicPartition("orders", 1), (1, 3)))
    cluster.delete_topic("orders")
    assert cluster.brokers[1].logs, "the deletion waits"
    cluster.alter_isr("orders", (1, 2, 3), 0)
    assert cluster.admin.exists(paths.topic("orders")) is not None
    cluster.alter_isr("orders", (1, 2, 3), 1)
    assert cluster.admin.exists(paths.topic("orders")) is None
    assert not any(broker.logs for broker in cluster.brokers.values())


# --- the tree cannot be reached ---


def test_a_controller_that_lost_the_tree_in_the_middle_of_an_event_starts_over(cluster: Cluster) -> None:
    """Half of the event may be in memory and not in the tree, so that everything is read again."""
    cluster.create_topic("orders", (2, 3))
    controller = cluster.candidates[0]
    session = controller.store.store
    reads = 0

    def cut_off_later(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        if reads == 2:
            session.suspend()
        return get_many(*arguments)

    get_many = session.get_many
    session.get_many = cut_off_later  # type: ignore[method-assign, assignment]
    cluster.stop_broker(2)
    while controller.events.pop() != events.BrokerChange():
        continue
    run(controller.controller.process(events.BrokerChange()))
    session.get_many = get_many  # type: ignore[method-assign]
    assert session.is_suspended, "the test needs an event that ends half-way"
    assert cluster.led("orders") == (2, (2, 3))
    session.resume()
    controller.events.put(events.ControllerChange())  # as the edge does
    cluster.settle()
    assert cluster.active.epoch == 2
    assert cluster.led("orders") == (3, (3,))


def test_a_deletion_goes_on_without_a_reassignment_when_a_broker_is_back(cluster: Cluster) -> None:
    """The partition may have no leader, and would never arrive."""
    cluster.create_topic("orders", (3,))
    cluster.admin.create(paths.REASSIGNMENTS, encode_reassignments({("orders", 0): (2,)}))
    cluster.settle()
    cluster.stop_broker(3)
    cluster.settle()
    cluster.delete_topic("orders")
    assert cluster.admin.exists(paths.topic("orders")) is not None
    cluster.start_broker(3)
    cluster.settle()
    assert cluster.admin.exists(paths.topic("orders")) is None
    assert cluster.admin.exists(paths.REASSIGNMENTS) is None
    assert not any(broker.logs for broker in cluster.brokers.values())
