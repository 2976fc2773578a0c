import pytest

from tidelog.metadata.placement import (
    Located,
    alternate_racks,
    change_replication_factor,
    failure_domains,
    place_replicas,
)
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


# --- racks: the examples of Kafka's own tests ---

RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def test_brokers_of_different_racks_alternate() -> None:
    assert alternate_racks(RACKS) == [0, 3, 1, 5, 4, 2]
    assert alternate_racks({broker: rack for broker, rack in RACKS.items() if broker != 5}) == [0, 3, 1, 4, 2]


def test_seven_partitions_on_three_racks() -> None:
    assert place_replicas(sorted(RACKS), 7, 3, racks=RACKS) == [
        (0, 3, 1),
        (3, 1, 5),
        (1, 5, 4),
        (5, 4, 2),
        (4, 2, 0),
        (2, 0, 3),
        (0, 4, 2),
    ]


@pytest.mark.parametrize("start", range(6))
@pytest.mark.parametrize("factor", [2, 3])
def test_no_rack_has_two_replicas_while_another_has_none(factor: int, start: int) -> None:
    placed = place_replicas(sorted(RACKS), 12, factor, start_index=start, follower_shift=start, racks=RACKS)
    assert all(len({RACKS[broker] for broker in replicas}) == factor for replicas in placed)
    leaders = [replicas[0] for replicas in placed]
    assert {leaders.count(broker) for broker in RACKS} == {2}


def test_more_replicas_than_racks_use_every_rack_and_no_broker_twice() -> None:
    placed = place_replicas(sorted(RACKS), 12, 4, racks=RACKS)
    assert all(len(set(replicas)) == 4 for replicas in placed)
    assert all(len({RACKS[broker] for broker in replicas}) == 3 for replicas in placed)


def test_racks_play_no_part_if_a_broker_has_none() -> None:
    racks = {**RACKS, 5: None}
    assert place_replicas(sorted(RACKS), 7, 3, racks=racks) == place_replicas(sorted(RACKS), 7, 3)


def test_a_single_broker_with_a_rack() -> None:
    assert place_replicas([7], 2, 1, racks={7: "a"}) == [(7,), (7,)]


# --- partitions that exist and get more or fewer replicas ---


def test_more_replicas_keep_the_leader_and_spread_over_the_other_brokers() -> None:
    """What a single broker leaves behind: every partition is led by it, and stays with it."""
    placed = change_replication_factor([(1,)] * 12, [1, 2, 3, 4], 2)
    assert all(replicas[0] == 1 for replicas in placed)
    assert [[replicas[1] for replicas in placed].count(broker) for broker in (2, 3, 4)] == [4, 4, 4]


def test_more_replicas_keep_the_ones_there_are() -> None:
    assert change_replication_factor([(2, 1), (3, 2)], [1, 2, 3, 4], 3) == [(2, 1, 3), (3, 2, 4)]


def test_fewer_replicas_drop_the_last_ones() -> None:
    assert change_replication_factor([(2, 1, 3), (3, 2, 1)], [1, 2, 3], 2) == [(2, 1), (3, 2)]


def test_a_partition_that_has_the_factor_stays() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    assert change_replication_factor([(1, 2), (3,)], [1, 2, 3], 2, racks=racks) == [(1, 2), (3, 2)]


def test_replicas_that_are_added_go_to_racks_without_one() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    placed = change_replication_factor([(1, 2), (1,), (3,), (3,), (5,)], sorted(racks), 3, racks=racks)
    assert [replicas[0] for replicas in placed] == [1, 1, 3, 3, 5]
    assert all({racks[broker] for broker in replicas} == {"a", "b", "c"} for replicas in placed)


def test_brokers_that_may_not_be_used_are_replaced_leaders_too() -> None:
    assert change_replication_factor([(9, 2), (9,)], [1, 2, 3], 2) == [(2, 3), (2, 1)]


def test_a_factor_above_the_number_of_brokers_is_refused_for_partitions_that_exist() -> None:
    with pytest.raises(ApiError, match="larger than available brokers: 2"):
        change_replication_factor([(1,)], [1, 2], 3)


def test_machines_take_the_place_of_racks_where_several_brokers_share_one() -> None:
    """Two machines of two cores each, whose racks are known on one machine only."""
    brokers = {1: Located("a", "a"), 2: Located("a", "a"), 3: Located(None, "b"), 4: Located(None, "b")}
    domains = failure_domains(brokers)
    assert domains == {1: "a", 2: "a", 3: "b", 4: "b"}
    for replicas in place_replicas([1, 2, 3, 4], 12, 2, racks=domains):
        assert len({domains[each] for each in replicas}) == 2


def test_machines_change_nothing_where_each_has_one_broker_or_all_share_one() -> None:
    apart = {1: Located(None, "b"), 2: Located(None, "a")}
    together = {1: Located(None, "a"), 2: Located(None, "a")}
    assert failure_domains(apart) == failure_domains(together) == {1: None, 2: None}
    assert failure_domains({1: Located("x", "a"), 2: Located("y", "a"), 3: Located("y", "b")}) == {
        1: "x",
        2: "y",
        3: "y",
    }
