"""Which brokers get the replicas of a new partition: round-robin, as Kafka places them when racks play no part.

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
"""

from collections.abc import Sequence

from tidelog.wire.errors import ApiError, ErrorCode


def place_replicas(
    broker_ids: Sequence[int],
    partition_count: int,
    replication_factor: int,
    *,
    start_index: int = 0,
    follower_shift: int = 0,
    first_partition: int = 0,
) -> list[tuple[int, ...]]:
    """The replicas, leader first, of `partition_count` partitions from `first_partition` on.

    `start_index` and `follower_shift` are drawn at random by whoever creates a topic, so that the first partitions of
    many small topics do not all go to the same broker.
    """
    _check_replication_factor(replication_factor, len(broker_ids))
    count = len(broker_ids)
    placed = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % count == 0:
            follower_shift += 1
        leader = (partition + start_index) % count
        distances = (1 + (follower_shift + follower) % (count - 1) for follower in range(replication_factor - 1))
        placed.append((broker_ids[leader], *(broker_ids[(leader + distance) % count] for distance in distances)))
    return placed


def _check_replication_factor(replication_factor: int, broker_count: int) -> None:
    if replication_factor <= 0:
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > broker_count:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {broker_count}.",
        )
