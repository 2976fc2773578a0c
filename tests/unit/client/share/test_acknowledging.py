from tidelog.client.aio.share.acknowledging import AckRange, has_renewal, ranges_of
from tidelog.client.aio.share.types import ACCEPTED, GAP, RELEASED, Ack, AcknowledgeType

REJECTED = Ack(AcknowledgeType.REJECT)


def test_neighbours_are_one_range_with_one_type_if_they_are_equal() -> None:
    acks = {5: ACCEPTED, 4: ACCEPTED, 6: ACCEPTED, 9: RELEASED}
    assert ranges_of(acks) == [AckRange(4, 6, [1], -1), AckRange(9, 9, [2], -1)]


def test_neighbours_of_different_types_have_one_each() -> None:
    assert ranges_of({4: ACCEPTED, 5: GAP, 6: REJECTED}) == [AckRange(4, 6, [1, 0, 3], -1)]


def test_a_delay_has_a_range_of_its_own_because_a_range_has_one_delay() -> None:
    later = Ack(AcknowledgeType.RELEASE, 500)
    assert ranges_of({4: RELEASED, 5: later, 6: later, 7: ACCEPTED}) == [
        AckRange(4, 4, [2], -1),
        AckRange(5, 6, [2], 500),
        AckRange(7, 7, [1], -1),
    ]


def test_a_renewal_anywhere_is_found() -> None:
    assert has_renewal([{1: ACCEPTED}, {2: Ack(AcknowledgeType.RENEW)}])
    assert not has_renewal([{1: ACCEPTED}, {}])
