"""What a member of a broker-assigned group says in its heartbeats, and what each answer makes of it."""

import pytest

from tidelog.client.aio.consumer.heartbeat_member import HeartbeatMember, Outcome, Wishes
from tidelog.client.aio.consumer.membership import Generation
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

T, U = b"t" * 16, b"u" * 16
WISHES = Wishes(frozenset({"t", "u"}))


def member(**changes: object) -> HeartbeatMember:
    arguments = {
        "group_id": "g",
        "group_instance_id": None,
        "rack_id": "r1",
        "rebalance_timeout_ms": 300_000,
        "server_assignor": "range",
        **changes,
    }
    return HeartbeatMember(**arguments)  # type: ignore[arg-type]


def answer(epoch: int = 1, assigned: dict[bytes, list[int]] | None = None) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if assigned is not None:
        assignment = Assignment(
            topic_partitions=[TopicPartitions(topic_id=topic, partitions=each) for topic, each in assigned.items()]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id="m", member_epoch=epoch, heartbeat_interval_ms=5000, assignment=assignment
    )


def joined(**changes: object) -> HeartbeatMember:
    one = member(**changes)
    one.heartbeat_request(WISHES)
    assert one.on_heartbeat(answer(assigned={T: [0, 1]})) is Outcome.PROCEED
    return one


def test_the_first_heartbeat_says_everything() -> None:
    request = member(group_instance_id="i").heartbeat_request(WISHES)
    assert request.member_epoch == 0
    assert (request.instance_id, request.rack_id, request.server_assignor) == ("i", "r1", "range")
    assert request.rebalance_timeout_ms == 300_000
    assert request.subscribed_topic_names == ["t", "u"]
    assert request.topic_partitions == []


def test_later_heartbeats_say_what_has_changed() -> None:
    one = joined()
    assert one.stable_generation == Generation(1, "m")
    plain = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1)
    assert one.heartbeat_request(WISHES) == plain
    owns = WISHES._replace(owned=frozenset({(T, 0), (T, 1), (U, 3)}))
    assert one.has_news(owns)
    request = one.heartbeat_request(owns)
    assert request.subscribed_topic_names is None
    assert request.topic_partitions == [
        TopicPartitions(topic_id=T, partitions=[0, 1]),
        TopicPartitions(topic_id=U, partitions=[3]),
    ]
    one.on_heartbeat(answer())
    assert not one.has_news(owns)
    assert one.heartbeat_request(owns) == plain


def test_an_answer_without_assignment_leaves_the_last_one() -> None:
    one = joined()
    assert one.target == {T: (0, 1)}
    one.on_heartbeat(answer(epoch=2))
    assert one.target == {T: (0, 1)}
    one.on_heartbeat(answer(epoch=3, assigned={}))
    assert one.target == {}


def test_after_silence_everything_is_said_again() -> None:
    one = joined()
    one.unanswered()
    request = one.heartbeat_request(WISHES)
    assert request.member_epoch == 1
    assert request.subscribed_topic_names == ["t", "u"]
    assert request.rebalance_timeout_ms == 300_000


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_again_as_itself(code: ErrorCode) -> None:
    one = joined()
    assert one.on_heartbeat(ConsumerGroupHeartbeatResponse(error_code=code)) is Outcome.FENCED
    assert one.stable_generation is None
    assert one.target is None
    request = one.heartbeat_request(WISHES)
    assert (request.member_id, request.member_epoch) == ("m", 0)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Outcome.RETRY),
        (ErrorCode.NOT_COORDINATOR, Outcome.COORDINATOR_LOST),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Outcome.COORDINATOR_LOST),
    ],
)
def test_a_coordinator_that_moved_changes_nothing_about_the_member(code: ErrorCode, outcome: Outcome) -> None:
    one = joined()
    assert one.on_heartbeat(ConsumerGroupHeartbeatResponse(error_code=code)) is outcome
    assert one.stable_generation == Generation(1, "m")
    assert one.target == {T: (0, 1)}


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.UNRELEASED_INSTANCE_ID])
def test_what_no_repetition_mends_is_raised(code: ErrorCode) -> None:
    one = member()
    one.heartbeat_request(WISHES)
    with pytest.raises(ApiError, match="no such") as raised:
        one.on_heartbeat(ConsumerGroupHeartbeatResponse(error_code=code, error_message="no such"))
    assert raised.value.code is code


def test_leaving_is_a_heartbeat_too() -> None:
    assert member().leave_request() is None, "there is nothing to leave"
    left = joined().leave_request()
    assert left is not None
    assert (left.member_id, left.member_epoch) == ("m", -1)
    stays = joined(group_instance_id="i").leave_request()
    assert stays is not None
    assert (stays.instance_id, stays.member_epoch) == ("i", -2)


def test_a_refused_commit_counts_only_in_its_own_epoch() -> None:
    one = joined()
    assert not one.lose(ErrorCode.UNKNOWN_MEMBER_ID, Generation(0, "m"))
    assert one.stable_generation is not None
    assert one.lose(ErrorCode.UNKNOWN_MEMBER_ID, Generation(1, "m"))
    assert one.stable_generation is None
