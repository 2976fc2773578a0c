"""Fetch of many partitions: read and answered in slices, so that other clients are served in between.

The connection's next request begins when all partitions were read once; a fetch that waits then holds up nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.serving.context import ClientLeft
from tidelog.replication.wide_fetch import WideFetch

if TYPE_CHECKING:
    from tidelog.broker.handlers._fetch_replies import Reading
    from tidelog.wire.fetch import PartitionReply

_PARTITIONS_A_SLICE: Final = 4_000
"""Of so many, the request is decoded and its session opened in about the time of a slice."""


class WideReading:
    """One request from its first read to its answer."""

    __slots__ = ("_fetch", "_node", "_reading", "_slot")

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._node = node = reading.node
        self._slot = reading.slot
        parameters = reading.parameters
        deadline_ms = node.clock.monotonic_ms() + max(parameters.max_wait_ms, 0)
        self._fetch = WideFetch(
            node.replica_manager, parameters, reading.context.wanted, self._on_waited, self._on_failed, deadline_ms
        )

    def begin(self) -> None:
        """Read now, answer now or when there is enough to read."""
        if len(self._reading.context.wanted) > _PARTITIONS_A_SLICE:
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
            await self._reading.pause()

    async def _answer(self, replies: list[PartitionReply]) -> None:
        reading = self._reading
        self._node.replica_manager.count_sent(reading.parameters, reading.context.wanted, replies)
        await reading.pause()
        await reading.respond_in_slices(replies)

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
