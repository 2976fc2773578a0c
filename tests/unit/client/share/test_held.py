import pytest

from tidelog.client.aio.share.held import HeldRecords
from tidelog.client.aio.share.types import ACCEPTED, RELEASED, Ack, AcknowledgeType, Origin, ShareRecord
from tidelog.client.errors import IllegalState
from tidelog.client.types import TopicPartition
from tidelog.records.header import TimestampType

ORIGIN = Origin(1, (b"t" * 16, 0), TopicPartition("t", 0))
RENEWED = Ack(AcknowledgeType.RENEW)
LOCKED_UNTIL = 1_000


def record(offset: int) -> ShareRecord[bytes, bytes]:
    return ShareRecord("t", 0, offset, 0, None, b"", (), TimestampType.CREATE_TIME, 0, 1)


def held(*offsets: int) -> HeldRecords:
    """Records that were delivered."""
    found = HeldRecords()
    found.arrive(ORIGIN, [record(offset) for offset in offsets], LOCKED_UNTIL)
    found.deliver(0, len(offsets))
    return found


def offsets(records: list[ShareRecord[bytes, bytes]]) -> list[int]:
    return [each.offset for each in records]


def test_what_is_acknowledged_is_taken_once_and_the_rest_stays() -> None:
    one = held(1, 2, 3)
    one.acknowledge("t", 0, 1, ACCEPTED)
    one.acknowledge("t", 0, 3, RELEASED)
    assert one.unacknowledged() == 1
    assert one.take() == {ORIGIN: {1: ACCEPTED, 3: RELEASED}}
    assert one.take() == {}
    with pytest.raises(IllegalState, match="offset 1 of t-0"):
        one.acknowledge("t", 0, 1, ACCEPTED)


def test_the_last_acknowledgement_before_it_is_sent_counts() -> None:
    one = held(1)
    one.acknowledge("t", 0, 1, ACCEPTED)
    one.acknowledge("t", 0, 1, RELEASED)
    assert one.take() == {ORIGIN: {1: RELEASED}}


def test_accepting_the_others_leaves_what_was_acknowledged() -> None:
    one = held(1, 2)
    one.acknowledge("t", 0, 1, RELEASED)
    one.accept_others()
    assert one.take() == {ORIGIN: {1: RELEASED, 2: ACCEPTED}}


def test_a_record_that_was_not_delivered_cannot_be_acknowledged() -> None:
    one = HeldRecords()
    one.arrive(ORIGIN, [record(1)], LOCKED_UNTIL)
    with pytest.raises(IllegalState):
        one.acknowledge("t", 0, 1, ACCEPTED)


def test_what_is_put_back_is_delivered_before_the_rest_and_is_not_accepted_meanwhile() -> None:
    one = HeldRecords()
    one.arrive(ORIGIN, [record(offset) for offset in range(4)], LOCKED_UNTIL)
    one.put_back(one.deliver(0, 2))
    one.accept_others()
    assert one.take() == {}
    assert offsets(one.deliver(0, 9)) == [0, 1, 2, 3]


def test_a_record_whose_lock_has_ended_is_not_delivered() -> None:
    one = HeldRecords()
    one.arrive(ORIGIN, [record(1)], LOCKED_UNTIL)
    one.arrive(ORIGIN, [record(2)], LOCKED_UNTIL + 1)
    assert offsets(one.deliver(LOCKED_UNTIL, 9)) == [2]


def test_a_renewed_record_is_delivered_again_when_its_lock_is_confirmed() -> None:
    one = held(1, 2)
    one.acknowledge("t", 0, 1, RENEWED)
    one.acknowledge("t", 0, 2, RENEWED)
    assert one.take() == {ORIGIN: {1: RENEWED, 2: RENEWED}}
    assert one.deliver(0, 9) == []
    one.renewed(ORIGIN, 1, 2 * LOCKED_UNTIL)
    one.renewed(ORIGIN, 2, None)
    assert offsets(one.deliver(LOCKED_UNTIL, 9)) == [1]
    one.acknowledge("t", 0, 1, ACCEPTED)
    assert one.take() == {ORIGIN: {1: ACCEPTED}}


def test_a_record_that_comes_again_replaces_what_is_left_of_it() -> None:
    """Its lock has timed out, and the broker has locked it for this consumer once more."""
    one = held(1)
    again = Origin(2, ORIGIN.key, ORIGIN.where)
    one.arrive(again, [record(1)], LOCKED_UNTIL)
    one.accept_others()
    assert one.take() == {}
    one.deliver(0, 1)
    one.accept_others()
    assert one.take() == {again: {1: ACCEPTED}}


def test_what_cannot_be_deserialized_is_released_unless_the_application_says_otherwise() -> None:
    one = HeldRecords()
    one.fail(ORIGIN, 7, LOCKED_UNTIL)
    one.fail(ORIGIN, 8, LOCKED_UNTIL)
    one.acknowledge("t", 0, 8, Ack(AcknowledgeType.REJECT))
    one.accept_others()
    assert one.take() == {ORIGIN: {7: RELEASED, 8: Ack(AcknowledgeType.REJECT)}}
