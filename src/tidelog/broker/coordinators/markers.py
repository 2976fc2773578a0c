"""Writes the markers that end transactions into the partitions of this broker.

The transaction coordinator's edge orders them for its own transactions, the handler of WriteTxnMarkers for those of
other coordinators and for operators. A marker in `__consumer_offsets` goes through the group coordinator, which has the
offsets that the transaction would commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tidelog.metadata.image import OFFSETS_TOPIC
from tidelog.records.builder import build_end_transaction_marker
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.coordinators.edge import CoordinatorEdge
    from tidelog.coordination import ProducerEpoch
    from tidelog.groups import GroupShard
    from tidelog.replication.replica_manager import ReplicaManager
    from tidelog.timing import Clock

_PARTITION_ERRORS: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""The group coordinator's errors, as the errors of a partition."""


class MarkerWriter:
    """Ends transactions in partitions that this broker leads."""

    def __init__(
        self,
        groups: CoordinatorEdge[GroupShard],
        replica_manager: ReplicaManager,
        clock: Clock,
        settings: CurrentSettings,
    ) -> None:
        self._groups = groups
        self._replica_manager = replica_manager
        self._clock = clock
        self._settings = settings

    def write(
        self,
        topic: str,
        index: int,
        producer: ProducerEpoch,
        coordinator_epoch: int,
        is_commit: bool,
        protocol: int,
        respond: Callable[[ErrorCode], None],
    ) -> None:
        """Append a marker; `respond` gets NONE once it is committed, or why it is not; it may be called at once.

        `protocol` is the version of the transaction's protocol. From version 2 on every transaction has an epoch of its
        own and the marker has the next one: a marker with the epoch of an open transaction is that of the one before,
        which is complete (KIP-1228).
        """
        if protocol and self._is_of_earlier_transaction(topic, index, producer, protocol):
            respond(ErrorCode.INVALID_PRODUCER_EPOCH)
            return

        def on_ended(outcome: ApiError | None) -> None:
            code = ErrorCode.NONE if outcome is None else outcome.code
            respond(_PARTITION_ERRORS.get(code, code))

        if topic == OFFSETS_TOPIC:
            self._groups.runtime.end_transaction(index, producer, coordinator_epoch, is_commit, on_ended)
            return
        marker = build_end_transaction_marker(
            is_commit=is_commit,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=self._clock.wall_ms(),
        )
        try:
            self._replica_manager.append(
                topic,
                index,
                bytearray(marker),
                lambda code, _first_offset: respond(code),
                timeout_ms=self._settings.config.request_timeout_ms,
            )
        except ApiError as error:
            respond(error.code)

    def _is_of_earlier_transaction(self, topic: str, index: int, producer: ProducerEpoch, protocol: int) -> bool:
        from tidelog.transactions.transaction import EPOCH_BUMPS_FROM, EPOCH_MAX

        hosted = self._replica_manager.find(topic, index)
        return (
            protocol >= EPOCH_BUMPS_FROM
            and hosted is not None
            and hosted.is_leader
            and producer.producer_epoch < EPOCH_MAX
            and hosted.log.producer_state.has_open_transaction(*producer)
        )
