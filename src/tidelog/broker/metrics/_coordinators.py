"""Groups and transactions: `kafka.coordinator`, and the lag of groups under the names of the usual Kafka exporters.

The lag is shown for partitions of which this broker has a replica. In a cluster the coordinator of a group may have
none: `kafka_log_log_logendoffset` of the leader less `kafka_consumergroup_current_offset` is the lag then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tidelog.broker.metrics._shapes import counter, gauge, gauges
from tidelog.metrics import Family, Kind, labels_text
from tidelog.metrics.families import Sample

if TYPE_CHECKING:
    from tidelog.broker.serving.node import Node
    from tidelog.groups.classic.group import Group

_GROUP_STATES: Final = {
    "PreparingRebalance": "numgroupspreparingrebalance",
    "CompletingRebalance": "numgroupscompletingrebalance",
    "Stable": "numgroupsstable",
    "Empty": "numgroupsempty",
    "Dead": "numgroupsdead",
}
_NEWER: Final = {
    "Assigning": "CompletingRebalance",
    "NotReady": "PreparingRebalance",
    "Reconciling": "PreparingRebalance",
}
"""States of the newer protocols, by what they are in the older one: Kafka 3.9's gauges have only those."""
_REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
_NAME: Final = "kafka_coordinator_group_groupmetadatamanager"
_OFFSET_LABELS: Final = ("consumergroup", "topic", "partition")


class CoordinatorFamilies:
    """The groups and the transactional ids that this broker coordinates."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def families(self) -> Iterator[Family]:
        yield from self._groups()
        yield from self._transactions()
        yield from self._shares()

    def _groups(self) -> Iterator[Family]:
        node = self._node
        groups = [group for shard in node.groups.shards() for group in shard.groups()]
        lags: list[tuple[str, int]] = []
        yield Family(
            "kafka_consumergroup_current_offset",
            Kind.GAUGE,
            "Committed offset of a group.",
            self._offsets(groups, lags),
        )
        # Read after the offsets, which fill it.
        yield Family(
            "kafka_consumergroup_lag",
            Kind.GAUGE,
            "Records between the committed offset of a group and the end of the partition.",
            (("", labels, lag) for labels, lag in iter(lags)),
        )
        yield gauges(
            "kafka_consumergroup_members",
            "Members of a group.",
            ((labels_text(("consumergroup",), (group.group_id,)), group.member_count) for group in groups),
        )
        yield Family(
            "tidelog_consumergroup",
            Kind.INFO,
            "State and protocol of a group.",
            (
                (
                    "_info",
                    labels_text(
                        ("consumergroup", "state", "protocol"),
                        (group.group_id, group.state_name, group.kind),
                    ),
                    1,
                )
                for group in groups
            ),
        )
        counts: Counter[str] = Counter()
        for group in groups:
            state = group.state_name
            counts[_NEWER.get(state, state)] += 1
        yield gauge(f"{_NAME}_numgroups", "Groups.", len(groups))
        for state, suffix in _GROUP_STATES.items():
            yield gauge(f"{_NAME}_{suffix}", f"Groups in the state {state}.", counts[state])
        yield gauge(f"{_NAME}_numoffsets", "Committed offsets.", sum(len(group.offsets) for group in groups))

    def _offsets(self, groups: list[Group], lags: list[tuple[str, int]]) -> Iterator[Sample]:
        if not groups:
            return  # a broker without groups has not imported what they need, which takes long
        from tidelog.groups.offsets import read_committed
        from tidelog.groups.schemas import read_partition_key

        find = self._node.replica_manager.find
        for group in groups:
            for key, value in list(group.offsets.items()):
                committed = read_committed(value)
                if committed is None:
                    continue
                topic, index = read_partition_key(key)
                labels = labels_text(_OFFSET_LABELS, (group.group_id, topic, str(index)))
                partition = find(topic, index)
                if partition is not None:
                    lags.append((labels, max(partition.log.high_watermark - committed.offset, 0)))
                yield "", labels, committed.offset

    def _transactions(self) -> Iterator[Family]:
        node = self._node
        counts: Counter[str] = Counter()
        for shard in node.transactions.edge.shards():
            counts.update(transaction.state.value for transaction in shard.transactions())
        yield gauges(
            "tidelog_transaction_transactionalids",
            "Transactional ids that this broker coordinates, by state.",
            [(labels_text(("state",), (state,)), count) for state, count in sorted(counts.items())],
        )
        yield gauge(
            "tidelog_coordinator_loading",
            "1 while groups or transactions are being loaded.",
            int(node.groups.has_loads or node.transactions.edge.has_loads),
        )

    def _shares(self) -> Iterator[Family]:
        """Nothing on a broker that has served no share group."""
        shares = self._node.shares.built
        if shares is None:
            return
        yield gauge("tidelog_sharegroup_sessions", "Share sessions on this broker.", len(shares.sessions))
        names = ("group", "topic", "partition")
        yield gauges(
            "tidelog_sharegroup_records_in_flight",
            "Records of a share group that are locked, wait or are being archived, on the partition's leader.",
            [
                (labels_text(names, (key.group_id, topic, str(key.partition))), core.in_flight)
                for key, topic, core in ((led.key, led.partition.topic, led.core) for led in shares.led())
                if core is not None
            ],
        )
        yield counter(
            "tidelog_sharegroup_dead_letters",
            "Dead letters of share groups that this broker has written.",
            shares.dead_letters.written,
        )


def waiting_in_groups(node: Node) -> dict[str, int]:
    """By Kafka's names: groups that wait for members to join or for their assignment, and members whose time runs."""
    rebalances = heartbeats = 0
    for shard in node.groups.shards():
        for group in shard.groups():
            rebalances += _NEWER.get(group.state_name, group.state_name) in _REBALANCING
            heartbeats += group.member_count
    return {"Rebalance": rebalances, "Heartbeat": heartbeats}
