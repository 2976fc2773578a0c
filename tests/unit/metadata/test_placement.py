import pytest

from tidelog.metadata.placement import place_replicas
from tidelog.wire.errors import ApiError, ErrorCode


def test_ten_partitions_of_three_replicas_on_five_brokers() -> None:
    """The table in the module's docstring."""
    assert place_replicas([0, 1, 2, 3, 4], 10, 3) == [
        (0, 1, 2),
        (1, 2, 3),
        (2, 3, 4),
        (3, 4, 0),
        (4, 0, 1),
        (0, 2, 3),
        (1, 3, 4),
        (2, 4, 0),
        (3, 0, 1),
        (4, 1, 2),
    ]


def test_one_broker_gets_everything() -> None:
    assert place_replicas([7], 3, 1, start_index=5, follower_shift=5) == [(7,), (7,), (7,)]


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = place_replicas([1, 2, 3, 4, 5, 6], 30, 3, start_index=4, follower_shift=2)
    leaders = [replicas[0] for replicas in placed]
    everyone = [broker for replicas in placed for broker in replicas]
    assert {broker: leaders.count(broker) for broker in range(1, 7)} == dict.fromkeys(range(1, 7), 5)
    assert {broker: everyone.count(broker) for broker in range(1, 7)} == dict.fromkeys(range(1, 7), 15)
    assert all(len(set(replicas)) == 3 for replicas in placed)


def test_added_partitions_go_on_where_the_first_ones_ended() -> None:
    whole = place_replicas([1, 2, 3], 6, 2, start_index=1, follower_shift=1)
    first = place_replicas([1, 2, 3], 2, 2, start_index=1, follower_shift=1)
    added = place_replicas([1, 2, 3], 1, 2, start_index=1, follower_shift=1, first_partition=2)
    assert first + added == whole[:3]


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (0, "Replication factor must be larger than 0."),
        (3, "Replication factor: 3 larger than available brokers: 1."),
    ],
)
def test_a_replication_factor_that_cannot_be_met_is_refused(factor: int, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        place_replicas([1], 1, factor)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REPLICATION_FACTOR, message)
