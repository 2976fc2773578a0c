"""Which brokers get the replicas of a partition: round-robin, as Kafka places them, and over racks where known.

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
rack has a replica and another rack has none: a partition survives the loss of a rack if it can. Where not every broker
has a rack, and some of them share a machine, the machine takes its place (`failure_domains`).

A partition that exists keeps its leader when the number of its replicas changes; added ones follow the same rule.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from tidelog.wire.errors import ApiError, ErrorCode


class Located(NamedTuple):
    """Where a broker is."""

    rack: str | None
    host: str


def failure_domains(brokers: Mapping[int, Located]) -> dict[int, str | None]:
    """What fails together, by broker: its rack or, unless all have one, its host where some hosts have several."""
    racks = {broker_id: each.rack for broker_id, each in brokers.items()}
    hosts = {broker_id: each.host for broker_id, each in brokers.items()}
    if None in racks.values() and 1 < len(set(hosts.values())) < len(hosts):
        return dict(hosts)
    return racks


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
    arranged = _arrange(broker_ids, racks or {})
    count = len(arranged.order)
    placed = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % count == 0:
            follower_shift += 1
        leader = arranged.order[(partition + start_index) % count]
        placed.append(arranged.replicas(leader, follower_shift, replication_factor))
    return placed


def change_replication_factor(
    current: Iterable[Sequence[int]],
    broker_ids: Sequence[int],
    replication_factor: int,
    *,
    follower_shift: int = 0,
    racks: Mapping[int, str | None] | None = None,
) -> list[tuple[int, ...]]:
    """The replicas of the partitions of a topic, in order, once each has `replication_factor` of them on `broker_ids`.

    The preferred leader stays, then as many of the other replicas as do not keep a rack from getting one. A partition
    that has the factor already stays as it is. `follower_shift` is drawn at random, as for a new topic.
    """
    _check_replication_factor(replication_factor, len(broker_ids))
    arranged = _arrange(broker_ids, racks or {})
    turns: Counter[int] = Counter()
    placed = []
    for partition, replicas in enumerate(current):
        kept = [broker_id for broker_id in replicas if broker_id in arranged.racks]
        leader = kept[0] if kept else arranged.order[partition % len(arranged.order)]
        if len(kept) == len(replicas) == replication_factor:
            placed.append(tuple(replicas))
        else:
            placed.append(arranged.replicas(leader, follower_shift + turns[leader], replication_factor, kept[1:]))
        turns[leader] += 1
    return placed


class _Arrangement(NamedTuple):
    """Brokers in the order in which they take their turns."""

    order: Sequence[int]
    racks: Mapping[int, str]
    """The rack of each broker; the same for all where the racks are not known."""

    def replicas(self, leader: int, shift: int, count: int, preferred: Iterable[int] = ()) -> tuple[int, ...]:
        """`count` replicas, `leader` first. `preferred` come before those whose turn it is."""
        shift *= len(set(self.racks.values()))
        candidates = chain(preferred, _followers(self.order, self.order.index(leader), shift))
        return leader, *_spread(leader, candidates, count - 1, self.racks)


def _arrange(broker_ids: Sequence[int], racks: Mapping[int, str | None]) -> _Arrangement:
    known = {broker_id: rack for broker_id in broker_ids if (rack := racks.get(broker_id)) is not None}
    if len(known) == len(broker_ids):
        return _Arrangement(alternate_racks(known), known)
    return _Arrangement(broker_ids, dict.fromkeys(broker_ids, ""))


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
