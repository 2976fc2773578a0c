"""The state of the coordinators inside simulated brokers: what it is, and what it should be by its log.

A coordinator that has answered everything has the state that a broker would load from the log: groups that are not in a
rebalance, with their offsets, and transactions. What is in memory only by design is left out: the last epoch of a
producer, and the members of a classic group while they join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from tidelog.coordination import CoordinatorRuntime
from tidelog.coordination.runtime import Loading
from tidelog.groups.classic.group import Group
from tidelog.groups.classic.states import GroupState
from tidelog.groups.shard import GroupShard
from tidelog.metadata.image import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.records.header import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from tidelog.testing.simulation.log_batches import read_batches
from tidelog.testing.simulation.processes import BrokerProcess
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction

ShardT = TypeVar("ShardT", GroupShard, TransactionShard)

_JOINING: Final = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)


def differences(broker: BrokerProcess) -> Iterator[str]:
    """Where the state of a coordinator is not what its log says."""
    groups, transactions = broker.node.groups.built, broker.node.transactions.edge.built
    if groups is not None:
        yield from _differences(broker, OFFSETS_TOPIC, groups, _compare_groups)
    if transactions is not None:
        yield from _differences(broker, TRANSACTIONS_TOPIC, transactions, _compare_transactions)


def _differences(
    broker: BrokerProcess,
    topic: str,
    runtime: CoordinatorRuntime[ShardT],
    compare: Callable[[ShardT, ShardT], Iterator[str]],
) -> Iterator[str]:
    for index in runtime.active_partitions():
        active = runtime._active[index]
        partition = broker.find_partition(topic, index)
        if partition is None or not partition.is_leader or active.pending or active.open_batch is not None:
            continue
        log = partition.log
        replayed = runtime._new_shard(index)
        loading = Loading(index, replayed)
        for batch in read_batches(log, log.log_start_offset, log.log_end_offset):
            for _ in loading.replay(batch):
                pass
        for difference in compare(active.shard, replayed):
            yield f"has {topic}-{index}: {difference}"


def _compare_groups(ours: GroupShard, replayed: GroupShard) -> Iterator[str]:
    nothing = Group("")
    for group_id in sorted({*ours._groups, *replayed._groups}):
        group, stored = ours._groups.get(group_id, nothing), replayed._groups.get(group_id, nothing)
        for what, here, there in (
            ("offsets", _offsets(group), _offsets(stored)),
            ("members", _members(group), _members(stored)),
            ("consumers", _consumers(group), _consumers(stored)),
        ):
            if here != there and not (what == "members" and (group.state in _JOINING or group is nothing)):
                yield f"the {what} of group {group_id} are {here}, its log says {there}"


def _offsets(group: Group) -> object:
    pending = {
        producer_id: {key: value for key, (_, value) in offsets.items()}
        for producer_id, offsets in group.offsets._pending.items()
    }
    return group.offsets._values, pending


def _members(group: Group) -> object:
    assignments = {member.member_id: bytes(member.assignment) for member in group.members.values()}
    return (group.generation, group.leader_id if assignments else None, assignments)


def _consumers(group: Group) -> object:
    consumers = group.consumer
    if consumers is None:
        return None
    return consumers.epoch, consumers.assignment_epoch, consumers.members, consumers.target, consumers.owners


def _compare_transactions(ours: TransactionShard, replayed: TransactionShard) -> Iterator[str]:
    for transactional_id in sorted({*ours._transactions, *replayed._transactions}):
        here = _logged(ours._transactions.get(transactional_id))
        there = _logged(replayed._transactions.get(transactional_id))
        if here != there:
            yield f"the transaction of {transactional_id} is {here}, its log says {there}"


def _logged(transaction: Transaction | None) -> Transaction | None:
    if transaction is None:
        return None
    return transaction._replace(last_producer_id=NO_PRODUCER_ID, last_producer_epoch=NO_PRODUCER_EPOCH)


# --- questions ---


def _transactions(broker: BrokerProcess) -> Iterator[Transaction]:
    built = broker.node.transactions.edge.built
    if built is not None:
        for index in built.active_partitions():
            yield from built.shard(index)._transactions.values()


def prepared_transactions(broker: BrokerProcess) -> list[Transaction]:
    """Transactions that are decided and whose markers are under way."""
    return [each for each in _transactions(broker) if each.state.is_prepared]


def unfinished_transactions(broker: BrokerProcess) -> list[Transaction]:
    """Transactions that are open, or decided and not complete."""
    return [each for each in _transactions(broker) if each.state.is_prepared or each.state is TransactionState.ONGOING]


def _groups(broker: BrokerProcess) -> Iterator[Group]:
    runtime = broker.node.groups.built
    if runtime is not None:
        for index in runtime.active_partitions():
            yield from runtime.shard(index)._groups.values()


def double_owners(broker: BrokerProcess) -> Iterator[str]:
    """Partitions that two members of a consumer group have, or have not confirmed as revoked."""
    for group in _groups(broker):
        owners: dict[tuple[bytes, int], str] = {}
        for member in () if group.consumer is None else group.consumer.members.values():
            for topic_id, partitions in member.holdings.items():
                for partition in sorted(partitions):
                    if owners.setdefault((topic_id, partition), member.member_id) != member.member_id:
                        yield f"partition {partition} of group {group.group_id}"


def consumer_states(broker: BrokerProcess) -> Iterator[str]:
    """The states of the consumer groups that a broker coordinates."""
    for group in _groups(broker):
        if group.consumer is not None:
            yield group.consumer.state_name


def has_rebalancing_group(broker: BrokerProcess) -> bool:
    return any(
        group.state in _JOINING or (group.consumer is not None and group.consumer.state_name != "Stable")
        for group in _groups(broker)
    )
