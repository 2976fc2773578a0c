"""The controller is elected, fenced and replaced; it processes one event after the other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.controller.cluster import Cluster, expire, run
from tidelog.controller import events
from tidelog.controller.controller import event_of_watch
from tidelog.controller.events import ElectionTrigger, ElectionType
from tidelog.metadata import paths
from tidelog.metadata.errors import StoreUnavailableError
from tidelog.metadata.store import EventKind
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import TopicPartition

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


@pytest.mark.parametrize("event", [events.Startup(), events.Reelect(), events.RegisterBrokerAndReelect()])
def test_an_election_that_the_tree_did_not_answer_is_repeated(cluster: Cluster, event: events.Event) -> None:
    second = cluster.add_controller(2)
    cluster.settle()
    second.store.store.suspend()
    cluster.candidates[0].store.store.close()
    assert run(second.controller.process(event)) == event
    second.store.store.resume()
    assert run(second.controller.process(event)) is None
    assert second.controller.is_active


def test_an_election_that_was_won_without_an_answer_is_won_again(cluster: Cluster) -> None:
    """The controller would not know its epoch, nor the cluster, which has no other controller meanwhile."""
    cluster.create_topic("orders", (2, 3))
    second = cluster.add_controller(2)
    cluster.settle()
    session = second.store.store

    def answer_is_lost(operations: Any) -> Any:
        session.multi(operations)
        raise StoreUnavailableError("no answer")

    second.store.multi = answer_is_lost  # type: ignore[method-assign]
    cluster.candidates[0].store.store.close()
    while not session.exists(paths.CONTROLLER):
        event = second.events.pop()
        assert event is not None
        unfinished = run(second.controller.process(event))
    assert not second.controller.is_active
    assert unfinished == events.Reelect()
    del second.store.multi
    cluster.settle()
    assert second.controller.is_active
    assert second.controller.epoch == 3
    assert second.controller.context.topics.keys() == {"orders"}


def test_a_controller_that_is_fenced_and_cannot_read_by_whom_reads_again(cluster: Cluster) -> None:
    cluster.create_topic("orders", (2, 3))
    old = cluster.candidates[0]
    submit_all = old.store.submit_all

    def refuse_and_cut_off(*arguments: Any) -> Any:
        try:
            return submit_all(*arguments)
        finally:
            old.store.store.suspend()

    old.store.submit_all = refuse_and_cut_off  # type: ignore[method-assign, assignment]
    cluster.admin.set(paths.CONTROLLER_EPOCH, b"2")
    outcomes: list[Any] = []
    moved = events.ControlledShutdown(2, -1, events.Reply(outcomes.append))
    assert run(old.controller.process(moved)) == events.ControllerChange()
    assert [each.code for each in outcomes] == [ErrorCode.NOT_CONTROLLER]


# --- producer ids ---


def test_producer_ids_are_given_out_in_blocks_of_a_thousand(cluster: Cluster) -> None:
    epoch = cluster.brokers[2].epoch
    first = cluster.ask(lambda reply: events.AllocateProducerIds(2, epoch, reply))
    second = cluster.ask(lambda reply: events.AllocateProducerIds(2, epoch, reply))
    assert (first.first, first.last, second.first) == (0, 999, 1000)
    assert cluster.ask(lambda reply: events.AllocateProducerIds(2, 0, reply)).code is ErrorCode.STALE_BROKER_EPOCH
    unknown = cluster.ask(lambda reply: events.AllocateProducerIds(9, 0, reply))
    assert unknown.code is ErrorCode.BROKER_ID_NOT_REGISTERED
