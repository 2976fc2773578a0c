from tidelog.controller import events
from tidelog.controller.events import EventQueue, Reply
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.partitions import TopicPartition


def test_broker_changes_come_first_and_the_rest_in_order() -> None:
    queue = EventQueue()
    for event in (events.TopicChange(), events.TopicDeletion(), events.BrokerChange(), events.BrokerModifications(3)):
        queue.put(event)
    taken = [queue.pop() for _ in range(5)]
    assert taken == [
        events.BrokerChange(),
        events.BrokerModifications(3),
        events.TopicChange(),
        events.TopicDeletion(),
        None,
    ]


def test_each_event_wakes_the_one_that_waits() -> None:
    woken: list[int] = []
    queue = EventQueue(lambda: woken.append(len(queue)))
    queue.put(events.TopicChange())
    queue.put(events.TopicChange())
    assert woken == [1, 2]


def test_what_waits_when_the_session_ends_is_refused() -> None:
    queue = EventQueue()
    outcomes: list[object] = []
    partition = TopicPartition("orders", 0)
    queue.put(events.ControlledShutdown(1, 2, Reply(outcomes.append)))
    queue.put(events.ApiReassignment({partition: None}, Reply(outcomes.append)))
    queue.put(events.ListReassignments(None, Reply(outcomes.append)))
    queue.put(events.AllocateProducerIds(1, 2, Reply(outcomes.append)))
    queue.put(events.TopicChange())
    queue.clear_and_put(events.Expire())
    assert [isinstance(each, ApiError) and each.code for each in outcomes] == [ErrorCode.NOT_CONTROLLER] * 4
    assert queue.pop() == events.Expire()
    assert queue.pop() is None


def test_elections_that_are_refused_name_their_partitions() -> None:
    outcomes: list[object] = []
    partition = TopicPartition("orders", 0)
    event = events.ReplicaLeaderElection((partition,), reply=Reply(outcomes.append))
    event.fail(ErrorCode.NOT_CONTROLLER)
    (results,) = outcomes
    assert isinstance(results, dict)
    assert results[partition].code is ErrorCode.NOT_CONTROLLER


def test_only_the_first_outcome_counts() -> None:
    outcomes: list[object] = []
    reply: Reply[object] = Reply(outcomes.append)
    reply("done")
    reply("failed")
    assert outcomes == ["done"]


def test_a_shutdown_is_not_dropped_when_the_session_expires_meanwhile() -> None:
    """A broker that was stopping when its session expired never stopped. Found by the simulator."""
    queue = EventQueue()
    queue.put(events.TopicChange())
    queue.put(events.Shutdown())
    queue.clear_and_put(events.Expire())
    left = [queue.pop(), queue.pop(), queue.pop()]
    assert sorted(type(event).__name__ for event in left if event is not None) == ["Expire", "Shutdown"]
