"""AlterPartition: a leader wants another ISR, and the controller writes it if the leader is up to date (KIP-497).

the leader's epochs are above ours     NOT_CONTROLLER           another controller is newer
its leader epoch is below ours         FENCED_LEADER_EPOCH      another replica leads
the partition is as wanted             no error                 a request that was repeated
its partition epoch is below ours      INVALID_UPDATE_VERSION   it has missed a change
it recovers, with more than itself     INVALID_REQUEST          (KIP-704)
an ISR member is not alive             INELIGIBLE_REPLICA       or has restarted since (KIP-841, KIP-903)
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.controller.environment import Environment
from tidelog.controller.partitions import Leadership
from tidelog.metadata.tree import LEADER_RECOVERED, LEADER_RECOVERING
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionDataResponse,
    TopicDataResponse,
)
from tidelog.wire.partitions import TopicPartition
from tidelog.wire.primitives import NO_UUID

logger = logging.getLogger(__name__)

_TOPIC_IDS_SINCE: Final = 2
_EPOCHS_SINCE: Final = 3
_ANY_EPOCH: Final = -1


class IsrUpdates:
    """Answers AlterPartition."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._context = environment.context

    async def alter(
        self, request: AlterPartitionRequest, version: int
    ) -> tuple[AlterPartitionResponse, list[TopicPartition]]:
        """The response, and the partitions whose ISR is as the leader wants it."""
        context = self._context
        if context.broker_epoch(request.broker_id) != request.broker_epoch:
            logger.info("AlterPartition of broker %d has the stale epoch %d", request.broker_id, request.broker_epoch)
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), []
        response = AlterPartitionResponse()
        wanted = self._wanted(request, version, response)
        results: dict[TopicPartition, Leadership | ErrorCode] = {}
        accepted: dict[TopicPartition, Leadership] = {}
        for partition, data in wanted.items():
            checked = self._check(request.broker_id, partition, data, version)
            if isinstance(checked, ErrorCode) or checked == context.leaderships[partition]:
                results[partition] = checked
            else:
                accepted[partition] = checked
            await self._environment.pause()
        results |= await self._write(accepted)
        batch = self._environment.new_batch()
        batch.add_metadata(context.live_brokers, wanted)
        await batch.send()
        self._fill(response, results)
        return response, [partition for partition, result in results.items() if isinstance(result, Leadership)]

    def _wanted(
        self, request: AlterPartitionRequest, version: int, response: AlterPartitionResponse
    ) -> dict[TopicPartition, PartitionData]:
        """By partition; topics of unknown ids are answered at once."""
        wanted = {}
        for topic in request.topics:
            name: str | None = topic.topic_name
            if version >= _TOPIC_IDS_SINCE:
                name = self._context.topic_names.get(topic.topic_id)
            if name is None:
                errors = [
                    PartitionDataResponse(partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
                    for each in topic.partitions
                ]
                response.topics.append(TopicDataResponse(topic_id=topic.topic_id, partitions=errors))
                continue
            for data in topic.partitions:
                wanted[TopicPartition(name, data.partition_index)] = data
        return wanted

    def _check(
        self, broker_id: int, partition: TopicPartition, data: PartitionData, version: int
    ) -> Leadership | ErrorCode:
        """The leadership to write, the current one if it is as wanted, or why neither."""
        current = self._context.leaderships.get(partition)
        if current is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if data.partition_epoch > current.partition_epoch or data.leader_epoch > current.leader_epoch:
            return ErrorCode.NOT_CONTROLLER
        if data.leader_epoch < current.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        isr = _new_isr(data, version)
        wanted = (broker_id, isr, data.leader_recovery_state)
        # Before the partition epoch, so that a repeated request gets the answer of the first.
        if wanted == (current.leader, current.isr, current.recovery_state):
            return current
        if data.partition_epoch < current.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if data.leader_recovery_state == LEADER_RECOVERING and (
            len(isr) > 1 or current.recovery_state == LEADER_RECOVERED
        ):
            return ErrorCode.INVALID_REQUEST
        if not self._are_eligible(partition, data, isr, version):
            return ErrorCode.INELIGIBLE_REPLICA if version >= _TOPIC_IDS_SINCE else ErrorCode.OPERATION_NOT_ATTEMPTED
        return Leadership(
            broker_id,
            data.leader_epoch,
            isr,
            self._context.epoch,
            data.leader_recovery_state,
            data.partition_epoch,
        )

    def _are_eligible(self, partition: TopicPartition, data: PartitionData, isr: Iterable[int], version: int) -> bool:
        context = self._context
        missing = set(isr).difference(context.live_broker_ids())
        if version >= _EPOCHS_SINCE:
            # A restarted broker may have lost its log: the leader must have seen its present registration.
            missing.update(
                each.broker_id
                for each in data.new_isr_with_epochs
                if each.broker_epoch not in (_ANY_EPOCH, context.broker_epoch(each.broker_id))
            )
        if missing:
            logger.info("the ISR %s of %s is rejected because of brokers %s", isr, partition, sorted(missing))
        return not missing

    async def _write(
        self, accepted: Mapping[TopicPartition, Leadership]
    ) -> dict[TopicPartition, Leadership | ErrorCode]:
        results: dict[TopicPartition, Leadership | ErrorCode] = {}
        updates = await self._environment.tree.update_states(accepted)
        self._context.leaderships.update(updates.done)
        results.update(updates.done)
        results.update(dict.fromkeys(updates.stale, ErrorCode.INVALID_UPDATE_VERSION))
        for partition, error in updates.failed.items():
            logger.error("the ISR of %s is not written: %s", partition, error)
            results[partition] = ErrorCode.UNKNOWN_SERVER_ERROR
        return results

    def _fill(self, response: AlterPartitionResponse, results: Mapping[TopicPartition, Leadership | ErrorCode]) -> None:
        topics: dict[str, TopicDataResponse] = {}
        for partition, result in results.items():
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = TopicDataResponse(
                    topic_name=partition.topic,
                    topic_id=self._context.topic_ids.get(partition.topic, NO_UUID),
                )
            topic.partitions.append(_answer(partition.partition, result))
        response.topics.extend(topics.values())


def _new_isr(data: PartitionData, version: int) -> tuple[int, ...]:
    if version >= _EPOCHS_SINCE:
        return tuple(each.broker_id for each in data.new_isr_with_epochs)
    return tuple(data.new_isr)


def _answer(index: int, result: Leadership | ErrorCode) -> PartitionDataResponse:
    if isinstance(result, ErrorCode):
        return PartitionDataResponse(partition_index=index, error_code=result)
    return PartitionDataResponse(
        partition_index=index,
        leader_id=result.leader,
        leader_epoch=result.leader_epoch,
        isr=list(result.isr),
        leader_recovery_state=result.recovery_state,
        partition_epoch=result.partition_epoch,
    )
