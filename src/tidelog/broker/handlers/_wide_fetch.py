"""Fetch of many partitions: read and answered in slices, so that other clients are served in between.

The connection's next request begins when all partitions were read once; a fetch that waits then holds up nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.context import ClientLeft
from tidelog.broker.handlers.fetch import CONVERTED_BEFORE, ZSTD_FROM, converted, throttle_of, without_zstd
from tidelog.replication.wide_fetch import WideFetch
from tidelog.wire.fetch import encode_response

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.network.connection import Slot
    from tidelog.replication.fetch import FetchParameters
    from tidelog.replication.fetch_session import FetchContext
    from tidelog.wire.fetch import PartitionReply

_PARTITIONS_A_SLICE: Final = 4_000
"""Of so many, the request is decoded and its session opened in about the time of a slice."""


def serve(
    node: Node, slot: Slot, context: FetchContext, parameters: FetchParameters, version: int, correlation_id: int
) -> None:
    """Read now, answer now or when there is enough to read."""
    _WideRequest(node, slot, context, parameters, version, correlation_id).begin()


class _WideRequest:
    """One request from its first read to its answer."""

    __slots__ = ("_context", "_correlation_id", "_fetch", "_node", "_parameters", "_slot", "_version")

    def __init__(
        self,
        node: Node,
        slot: Slot,
        context: FetchContext,
        parameters: FetchParameters,
        version: int,
        correlation_id: int,
    ) -> None:
        self._node = node
        self._slot = slot
        self._context = context
        self._parameters = parameters
        self._version = version
        self._correlation_id = correlation_id
        deadline_ms = node.clock.monotonic_ms() + max(parameters.max_wait_ms, 0)
        self._fetch = WideFetch(
            node.replica_manager, parameters, context.wanted, self._on_waited, self._on_failed, deadline_ms
        )

    def begin(self) -> None:
        if len(self._context.wanted) > _PARTITIONS_A_SLICE:
            self._node.slices.use_up()
        self._node.replica_manager.wide_fetches.add(self._fetch)
        if not self._node.slices.start(self._read_first(), self._on_read, self._on_failed):
            self._slot.connection.mute()
        if self._slot.reply is None:
            self._slot.park(self._on_client_left)

    async def _read_first(self) -> bool:
        """Whether the request is answered; otherwise it waits."""
        replies, is_enough = await self._read(has_waited=False)
        if is_enough:
            await self._answer(replies)
        return is_enough

    def _on_read(self, is_answered: bool) -> None:
        node = self._node
        if is_answered:
            self._end()
        else:
            # Partitions may have changed after they were read. If that is enough, it completes at once.
            node.replica_manager.fetch_purgatory.try_complete_else_watch(self._fetch, (), node.clock.monotonic_ms())
            # The end of a turn sets the timer for the new deadline.
            node.socket_server.wake()
        self._slot.connection.unmute()

    def _on_waited(self) -> None:
        self._node.slices.start(self._read_again(), self._on_answered, self._on_failed)

    async def _read_again(self) -> None:
        replies, _ = await self._read(has_waited=True)
        await self._answer(replies)

    async def _read(self, *, has_waited: bool) -> tuple[list[PartitionReply], bool]:
        steps = self._fetch.reading(has_waited=has_waited)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                read: tuple[list[PartitionReply], bool] = stop.value
                return read
            await self._pause()

    async def _answer(self, replies: list[PartitionReply]) -> None:
        node, version, wanted = self._node, self._version, self._context.wanted
        node.replica_manager.count_sent(self._parameters, wanted, replies)
        if version < ZSTD_FROM:
            for position, entry in enumerate(wanted):
                replies[position] = without_zstd(node, entry, replies[position])
                await self._pause()
        if version < CONVERTED_BEFORE:
            replies = await converted(node, self._slot, wanted, replies, version)
        await self._pause()
        throttle_ms = 0
        if node.client_quotas.limits_fetch:
            throttle_ms = throttle_of(node, self._slot, self._parameters, replies)
            await self._pause()
        if node.replica_manager.traffic is not None and not throttle_ms:
            node.replica_manager.traffic.count_fetch(self._parameters, wanted, replies)
            await self._pause()
        topics = () if throttle_ms else self._context.select(replies)
        await self._pause()
        self._slot.fill(
            encode_response(  # type: ignore[arg-type]
                self._correlation_id,
                version,
                topics,
                session_id=self._context.session_id,
                throttle_time_ms=throttle_ms or self._slot.connection.throttle_ms,
            )
        )

    async def _pause(self) -> None:
        await self._node.slices.pause()
        if self._slot.connection.is_closed:
            raise ClientLeft

    def _on_answered(self, _nothing: None) -> None:
        self._end()

    def _on_client_left(self) -> None:
        """End the wait; what is being read notices by itself."""
        self._end()
        self._fetch.force_complete()

    def _on_failed(self, cause: Exception) -> None:
        self._end()
        if not isinstance(cause, ClientLeft):
            self._slot.fail("Fetch", cause)

    def _end(self) -> None:
        self._node.replica_manager.wide_fetches.discard(self._fetch)
        self._fetch.let_go()
