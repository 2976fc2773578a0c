"""Produce requests, and this broker's own appends, between the append and the answer.

A `PendingProduce` lives for one turn: its records are staged, its answer is written when they are. Only a request that
must wait for followers (acks=all) or for a sync to disk becomes a `DelayedProduce` in purgatory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from tidelog.replication.partition import Partition
from tidelog.storage.types import LogAppendInfo
from tidelog.timing import DelayedOperation
from tidelog.wire.errors import ErrorCode
from tidelog.wire.produce import PartitionReply, encode_response


class Appended(NamedTuple):
    """One partition of a request: what it will be answered if all goes well, and the offset that must be reached."""

    topic: str
    partition: Partition | None
    reply: PartitionReply
    required_offset: int


Respond = Callable[[list[Appended]], None]


class ReplySlot(Protocol):
    """Where a reply goes, or the error that kept it from being made."""

    def fill(self, reply: bytes) -> None: ...
    def fail(self, api: str, cause: Exception) -> None: ...


def lost_reply(partition: Partition) -> PartitionReply:
    """The disk refused the write, or the topic was deleted: what was staged is not there, whatever was promised."""
    error = partition.absence()
    return PartitionReply(partition.index, error.code, error_message=error.message)


class PendingProduce:
    """A request whose records are staged in this turn."""

    __slots__ = ("_slot", "acks", "appended", "respond", "timeout_ms")

    def __init__(self, appended: list[Appended], acks: int, timeout_ms: int, slot: ReplySlot, respond: Respond) -> None:
        self.appended = appended
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.respond = respond
        self._slot = slot

    @property
    def keys(self) -> list[tuple[str, int]]:
        """The partitions it waits for, as purgatory names them."""
        return [entry.partition.key for entry in self.appended if entry.partition is not None]

    def is_satisfied(self) -> bool:
        """Has every partition reached what this request waits for? One that is gone has nothing to wait for."""
        for _, partition, _, required_offset in self.appended:
            if partition is None or not partition.is_leader:
                continue
            log = partition.log
            reached = log.high_watermark if self.acks == -1 else log.durable_end_offset
            if reached < required_offset:
                return False
        return True

    def complete(self) -> None:
        """Answer with what became of each partition."""
        appended = self.appended
        for position, entry in enumerate(appended):
            partition = entry.partition
            if partition is not None and not partition.is_leader:
                appended[position] = entry._replace(reply=lost_reply(partition))
        self.respond(appended)

    def time_out(self) -> None:
        """The deadline passed: partitions that are not there yet are answered so; they may still get there."""
        for position, entry in enumerate(self.appended):
            partition = entry.partition
            if partition is None or not partition.is_leader:
                continue
            if partition.log.high_watermark < entry.required_offset:
                reply = PartitionReply(entry.reply.partition_index, ErrorCode.REQUEST_TIMED_OUT)
                self.appended[position] = entry._replace(reply=reply)
        self.complete()

    def fail(self, cause: Exception) -> None:
        """There is no answer, by a mistake of ours."""
        self._slot.fail("Produce", cause)


class SingleProduce:
    """A request for one partition that went well so far: what nearly every request is, at a fraction of the cost."""

    __slots__ = ("_correlation_id", "_info", "_partition", "_slot", "_version", "acks", "timeout_ms")

    def __init__(
        self,
        partition: Partition,
        info: LogAppendInfo,
        acks: int,
        timeout_ms: int,
        correlation_id: int,
        version: int,
        slot: ReplySlot,
    ) -> None:
        self._partition = partition
        self._info = info
        self.acks = acks
        self.timeout_ms = timeout_ms
        self._correlation_id = correlation_id
        self._version = version
        self._slot = slot

    @property
    def keys(self) -> list[tuple[str, int]]:
        return [self._partition.key]

    def is_satisfied(self) -> bool:
        partition = self._partition
        log = partition.log
        reached = log.high_watermark if self.acks == -1 else log.durable_end_offset
        return reached > self._info[1] or not partition.is_leader

    def complete(self) -> None:
        partition = self._partition
        if not partition.is_leader:
            self._refuse(lost_reply(partition))
            return
        info = self._info
        single = partition.single_reply
        assert single is not None, "only partitions with a short name take this way"
        self._slot.fill(single.encode(self._correlation_id, partition.index, info[0], info[3], info[4]))

    def time_out(self) -> None:
        self._refuse(PartitionReply(self._partition.index, ErrorCode.REQUEST_TIMED_OUT))

    def fail(self, cause: Exception) -> None:
        self._slot.fail("Produce", cause)

    def _refuse(self, reply: PartitionReply) -> None:
        self._slot.fill(encode_response(self._correlation_id, self._version, [(self._partition.topic, [reply])], 0))


class OwnAppend:
    """A batch that this broker itself has made, a coordinator's or a marker, until every in-sync replica has it."""

    __slots__ = ("_info", "_on_committed", "_partition", "timeout_ms")

    def __init__(
        self, partition: Partition, info: LogAppendInfo, timeout_ms: int, on_committed: Callable[[ErrorCode, int], None]
    ) -> None:
        self._partition = partition
        self._info = info
        self.timeout_ms = timeout_ms
        self._on_committed = on_committed

    @property
    def keys(self) -> list[tuple[str, int]]:
        return [self._partition.key]

    def is_satisfied(self) -> bool:
        partition = self._partition
        return partition.log.high_watermark > self._info[1] or not partition.is_leader

    def complete(self) -> None:
        if self._partition.is_leader:
            self._on_committed(ErrorCode.NONE, self._info[0])
        else:
            self._on_committed(self._partition.absence().code, -1)

    def time_out(self) -> None:
        self._on_committed(ErrorCode.REQUEST_TIMED_OUT, -1)

    def fail(self, cause: Exception) -> None:
        """`on_committed` itself failed: no connection is concerned, so the error goes to where it is reported."""
        raise cause


class Produce(Protocol):
    """Any of the three, as the replica manager sees it."""

    timeout_ms: int

    @property
    def keys(self) -> list[tuple[str, int]]: ...
    def is_satisfied(self) -> bool: ...
    def complete(self) -> None: ...
    def time_out(self) -> None: ...
    def fail(self, cause: Exception) -> None: ...


class DelayedProduce(DelayedOperation):
    """A produce that waits for its records to be committed, or for `request.timeout.ms`."""

    __slots__ = ("_pending",)

    def __init__(self, pending: Produce, deadline_ms: int) -> None:
        super().__init__(deadline_ms)
        self._pending = pending

    def try_complete(self) -> bool:
        return self._pending.is_satisfied() and self.force_complete()

    def on_complete(self) -> None:
        if self._pending.is_satisfied():
            self._pending.complete()
        else:
            self._pending.time_out()

    def on_failure(self, error: Exception) -> None:
        self._pending.fail(error)
