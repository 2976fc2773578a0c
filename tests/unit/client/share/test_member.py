from tidelog.client.aio.consumer.heartbeat_member import Outcome
from tidelog.client.aio.share.member import ShareMember
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.share_group_heartbeat import Assignment, ShareGroupHeartbeatResponse, TopicPartitions

TOPICS = frozenset({"u", "t"})


def joined() -> ShareMember:
    one = ShareMember("g", "r1")
    one.heartbeat_request(TOPICS)
    assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=b"t" * 16, partitions=[0, 1])])
    reply = ShareGroupHeartbeatResponse(member_id="m", member_epoch=3, heartbeat_interval_ms=5, assignment=assignment)
    assert one.on_heartbeat(reply) is Outcome.PROCEED
    return one


def test_the_first_heartbeat_says_everything_and_later_ones_what_has_changed() -> None:
    request = ShareMember("g", "r1").heartbeat_request(TOPICS)
    assert (request.member_epoch, request.rack_id, request.subscribed_topic_names) == (0, "r1", ["t", "u"])
    request = joined().heartbeat_request(TOPICS)
    assert (request.member_epoch, request.rack_id, request.subscribed_topic_names) == (3, None, None)
    assert joined().heartbeat_request(frozenset({"t"})).subscribed_topic_names == ["t"]


def test_the_assignment_comes_with_an_answer() -> None:
    assert joined().target == {b"t" * 16: (0, 1)}


def test_a_member_that_was_fenced_joins_again_under_its_id() -> None:
    one = joined()
    assert one.on_heartbeat(ShareGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)) is Outcome.FENCED
    assert one.target is None
    assert (one.heartbeat_request(TOPICS).member_id, one.member_epoch) == ("m", 0)


def test_a_member_leaves_once_and_one_that_never_joined_does_not() -> None:
    one = joined()
    request = one.leave_request()
    assert request is not None
    assert (request.member_id, request.member_epoch) == ("m", -1)
    assert one.leave_request() is None
    assert ShareMember("g", None).leave_request() is None
