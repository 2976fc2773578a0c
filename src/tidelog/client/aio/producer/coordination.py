"""The requests that make up a transaction, for any process that knows its transactional id, producer id and epoch.

A transaction belongs to those three and not to a process: one may begin it, others add partitions and write, another
may end it. Every request here may arrive twice, so each is repeated, at the coordinator of the moment, until it is
answered for good or `max_block_ms` have passed. What an answer means for a producer is `Transactions`' to say.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeVar

from tidelog.client.aio.coordinators import CoordinatorType
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.producer.sequences import NO_IDENTITY, ProducerIdentity
from tidelog.client.aio.reactions import Reaction, check_code, reaction_to
from tidelog.client.backoff import Backoff
from tidelog.client.errors import ApiError, BrokerUnavailable, DeadlinePassed
from tidelog.client.types import BrokerNode, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from tidelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

Result = TypeVar("Result")

_ADD_PARTITIONS_VERSION_MAX: Final = 3  # later ones are for brokers
_END_VERSION_MAX: Final = 4  # from 5 on the epoch changes with the end of a transaction (KIP-890)
_OFFSETS_VERSION_MAX: Final = 4  # later ones add the group to the transaction (KIP-890)
_ADDING_OFFSETS_VERSION_MAX: Final = 5  # later ones need the ids of topics, which a producer need not know
_CONCURRENT_WAIT_MS: Final = 20
"""A transaction that is being completed is done in a moment; the usual back-off would be felt by every commit."""


class TransactionCoordinator:
    """The coordinator of one transactional id."""

    def __init__(self, client: NetworkClient, transactional_id: str, *, max_block_ms: int) -> None:
        self.transactional_id = transactional_id
        self._client = client
        self._max_block_ms = max_block_ms
        self._backoff = Backoff(client.settings.retry_backoff_ms, client.settings.retry_backoff_max_ms)

    async def init_producer_id(self, timeout_ms: int, identity: ProducerIdentity = NO_IDENTITY) -> ProducerIdentity:
        """Take over the transactional id: its open transaction is completed, its former producer is fenced.

        With `identity`, only its epoch is raised, and only if nothing has taken the id since.
        """
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
        )

        async def ask(node: BrokerNode) -> ProducerIdentity:
            reply = await self._client.send(node.node_id, request, InitProducerIdResponse)
            check_code(reply.error_code, f"InitProducerId of transactional id {self.transactional_id!r}")
            return ProducerIdentity(reply.producer_id, reply.producer_epoch)

        return await self._asking(ask)

    async def add_partitions(self, identity: ProducerIdentity, partitions: Collection[TopicPartition]) -> None:
        """Bring partitions into the transaction, before anything is written to them."""
        topics: dict[str, list[int]] = {}
        for topic, partition in sorted(partitions):
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=each) for name, each in topics.items()],
        )

        async def ask(node: BrokerNode) -> None:
            reply = await self._client.send(
                node.node_id, request, AddPartitionsToTxnResponse, at_most=_ADD_PARTITIONS_VERSION_MAX
            )
            codes = {
                TopicPartition(topic.name, result.partition_index): result.partition_error_code
                for topic in reply.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            }
            # OPERATION_NOT_ATTEMPTED only says that another partition was the reason.
            for where, code in sorted(codes.items(), key=lambda item: item[1] == ErrorCode.OPERATION_NOT_ATTEMPTED):
                check_code(code, f"{where} in a transaction of transactional id {self.transactional_id!r}")

        await self._asking(ask)

    async def add_offsets(self, identity: ProducerIdentity, group_id: str) -> None:
        """Bring the offsets of a group into the transaction."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )

        async def ask(node: BrokerNode) -> None:
            reply = await self._client.send(node.node_id, request, AddOffsetsToTxnResponse)
            check_code(reply.error_code, f"offsets of group {group_id!r}")

        await self._asking(ask)

    async def commit_offsets(
        self,
        identity: ProducerIdentity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        *,
        adds: bool = False,
    ) -> None:
        """Store offsets of a group at the coordinator of the group.

        `add_offsets` has brought them in before, unless this `adds` them: that is version 2 of the protocol.
        """
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), position in sorted(offsets.items()):
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=position.offset,
                    committed_leader_epoch=position.leader_epoch,
                    committed_metadata=position.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            generation_id_or_member_epoch=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        at_most = _ADDING_OFFSETS_VERSION_MAX if adds else _OFFSETS_VERSION_MAX

        async def ask(node: BrokerNode) -> None:
            reply = await self._client.send(node.node_id, request, TxnOffsetCommitResponse, at_most=at_most)
            for topic in reply.topics:
                for each in topic.partitions:
                    check_code(each.error_code, f"offset of {topic.name}-{each.partition_index} for {group.group_id!r}")

        await self._asking(ask, group.group_id)

    async def end(self, identity: ProducerIdentity, *, is_commit: bool, bumps_epoch: bool = False) -> ProducerIdentity:
        """Commit or abort; returns what the producer goes on with, which is new if this `bumps_epoch` (version 2)."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )

        at_most = None if bumps_epoch else _END_VERSION_MAX

        async def ask(node: BrokerNode) -> ProducerIdentity:
            reply = await self._client.send(node.node_id, request, EndTxnResponse, at_most=at_most)
            check_code(reply.error_code, f"EndTxn of transactional id {self.transactional_id!r}")
            return ProducerIdentity(reply.producer_id, reply.producer_epoch) if reply.producer_id >= 0 else identity

        return await self._asking(ask)

    async def _asking(self, ask: Callable[[BrokerNode], Awaitable[Result]], group_id: str | None = None) -> Result:
        """Ask the coordinator (of the transaction, or of a group) until it answers for good or the time is up."""
        kind, key = CoordinatorType.TRANSACTION, self.transactional_id
        if group_id is not None:
            kind, key = CoordinatorType.GROUP, group_id
        deadline_ms = self._client.now_ms() + self._max_block_ms
        failures = 0
        while True:
            try:
                left_ms = max(deadline_ms - self._client.now_ms(), 1)
                node = await self._client.find_coordinator(kind, key, left_ms)
                return await ask(node)
            except (ApiError, BrokerUnavailable) as error:
                reaction = reaction_to(error)
                if not reaction.is_retriable:
                    raise
                if reaction is not Reaction.RETRY:
                    self._client.forget_coordinator(kind, key)
                failures += 1
                is_concurrent = isinstance(error, ApiError) and error.code is ErrorCode.CONCURRENT_TRANSACTIONS
                wait_ms = _CONCURRENT_WAIT_MS if is_concurrent else self._backoff.after(failures)
                if self._client.now_ms() + wait_ms > deadline_ms:
                    raise DeadlinePassed(f"not done within max.block.ms={self._max_block_ms}: {error}") from error
                await asyncio.sleep(wait_ms / 1000)
