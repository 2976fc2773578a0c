"""Which brokers get the replicas of a new partition: round-robin, as Kafka places them, and over racks where known.

Leaders go round the brokers in order, starting anywhere. The followers of a partition stand at a distance from its
leader that grows by one with each turn, so that the partitions of a broker that fails are spread over all the others.
Five brokers, ten partitions, three replicas, starting at 0:

    broker    0   1   2   3   4
    leader    p0  p1  p2  p3  p4
              p5  p6  p7  p8  p9
    second    p4  p0  p1  p2  p3
              p8  p9  p5  p6  p7
    third     p3  p4  p0  p1  p2
              p7  p8  p9  p5  p6

With racks, the brokers are arranged so that neighbours stand in different racks, and a broker is passed over while its
rack has a replica and another rack has none: a partition survives the loss of a rack if it can.
"""

from collections.abc import Iterator, Mapping, Sequence

from tidelog.wire.errors import ApiError, ErrorCode


def place_replicas(
    broker_ids: Sequence[int],
    partition_count: int,
    replication_factor: int,
    *,
    start_index: int = 0,
    follower_shift: int = 0,
    first_partition: int = 0,
    racks: Mapping[int, str | None] | None = None,
) -> list[tuple[int, ...]]:
    """The replicas, leader first, of `partition_count` partitions from `first_partition` on.

    `start_index` and `follower_shift` are drawn at random for a new topic, so that the first partitions of many small
    topics do not all go to the same broker. `racks` play a part if every broker has one.
    """
    _check_replication_factor(replication_factor, len(broker_ids))
    known = {broker_id: rack for broker_id in broker_ids if (rack := (racks or {}).get(broker_id)) is not None}
    is_rack_aware = len(known) == len(broker_ids)
    arranged = alternate_racks(known) if is_rack_aware else list(broker_ids)
    rack_count = len(set(known.values())) if is_rack_aware else 1
    count = len(arranged)
    placed = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % count == 0:
            follower_shift += 1
        leader = (partition + start_index) % count
        candidates = _followers(arranged, leader, follower_shift * rack_count)
        if is_rack_aware:
            followers = _spread(arranged[leader], candidates, replication_factor - 1, known)
        else:
            followers = [next(candidates) for _ in range(replication_factor - 1)]
        placed.append((arranged[leader], *followers))
    return placed


def alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """The brokers in an order that takes one from each rack in turn, for as long as it has any."""
    by_rack: dict[str, list[int]] = {}
    for broker_id, rack in sorted(racks.items()):
        by_rack.setdefault(rack, []).append(broker_id)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def _followers(arranged: Sequence[int], leader: int, shift: int) -> Iterator[int]:
    """The other brokers, again and again, beginning at a distance from the leader that depends on `shift`."""
    count = len(arranged)
    while True:
        yield arranged[(leader + 1 + shift % (count - 1)) % count]
        shift += 1


def _spread(leader: int, candidates: Iterator[int], count: int, racks: Mapping[int, str]) -> list[int]:
    """The first `count` candidates that are new, and in a new rack while there is one."""
    chosen: list[int] = []
    used_racks = {racks[leader]}
    rack_count = len(set(racks.values()))
    while len(chosen) < count:
        candidate = next(candidates)
        is_new_rack = racks[candidate] not in used_racks or len(used_racks) == rack_count
        if is_new_rack and candidate != leader and candidate not in chosen:
            chosen.append(candidate)
            used_racks.add(racks[candidate])
    return chosen


def _check_replication_factor(replication_factor: int, broker_count: int) -> None:
    if replication_factor <= 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > broker_count:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {broker_count}.",
        )
