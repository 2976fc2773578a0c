"""Finds the row that kills the process of its Python worker, or that hangs in it. No Spark: executors call this.

A worker runs functions under a watchdog, which ends it when a call takes longer than the pipeline's `row_timeout`. The
batch fails, and the pipeline starts again with a guard that is `apart`: each task then runs its functions in a child
process, which it forks. When a child dies, its rows are divided until the one that it dies of stands alone: that row
has failed, and its neighbours are computed again. A row is blamed when a second child has died of it alone, so that a
child that was killed for another reason costs time and no row.

A child is forked rather than started, because functions cannot always be imported (they are in a pipeline's file), and
computed apart only after a death, because a fork and two copies of each batch take a worker half as long again.
"""

import ctypes
import faulthandler
import math
import mmap
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from tidelog.client.durations import spoken

if TYPE_CHECKING:
    import pyarrow as pa

Note = Callable[[int], object]
"""Called with the number of a row before its function is, with SEVERAL before a function of several rows, and with
IDLE after the last one."""

Work = Callable[["pa.RecordBatch", Callable[..., Any], Note], "pa.RecordBatch"]
"""Computes a batch with a function."""

SEVERAL: Final = -1
IDLE: Final = -2
_PART_LIMIT_S: Final = 30.0
_REARM: Final = 4
_HEAD: Final = struct.Struct("<cdQ")
_BATCH: Final = b"b"
_ERROR: Final = b"e"
_SET_PARENT_DEATH_SIGNAL: Final = 1


@dataclass(frozen=True, slots=True)
class Guard:
    """How functions of rows run: how long one may take, and whether in a process apart from the worker."""

    limit_s: float | None = None
    is_apart: bool = False

    def run(
        self, batches: "Iterator[pa.RecordBatch]", function: Callable[..., Any], work: Work
    ) -> "Iterator[pa.RecordBatch]":
        """`work` for each batch, in one or several batches that together have its rows in their order."""
        if not self.is_apart:
            for batch in batches:
                with Watchdog(self.limit_s) as watchdog:
                    result = work(batch, function, watchdog.beat)
                yield result
            return
        with _Apart(work, function, self.limit_s) as apart:
            for batch in batches:
                yield from apart.results(batch)


class WorkerDied(RuntimeError):  # noqa: N818 - reads as what it says
    """A row killed the process that computed it, or hung in it. Another attempt would end in the same way."""

    retry = False


class Watchdog:
    """Ends this process when a function runs for longer than `limit_s`, and prints where it was.

    The timer is one of the C library's threads: it ends a process that holds Python's lock for ever, too.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._armed_at = -math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.beat(IDLE)

    def beat(self, row: int) -> None:
        """The limit counts from now. A call may take a quarter more: setting the timer for each row is not free."""
        if self._limit_s is None:
            return
        now = time.monotonic()
        if row == IDLE:
            self._armed_at = -math.inf
            faulthandler.cancel_dump_traceback_later()
        elif now - self._armed_at > self._limit_s / _REARM:
            self._armed_at = now
            faulthandler.dump_traceback_later(self._limit_s * (1 + 1 / _REARM), exit=True, file=sys.__stderr__ or 2)


class _Apart:
    """The rows of one task, computed in child processes, one after another."""

    def __init__(self, work: Work, function: Callable[..., Any], limit_s: float | None) -> None:
        self._work = work
        self._function = function
        self._limit_s = limit_s
        self._child: _Child | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.end()

    def results(self, batch: "pa.RecordBatch") -> "Iterator[pa.RecordBatch]":
        """The results of a batch, with the rows that kill their process as failed ones."""
        waiting = [batch]
        while waiting:
            part = waiting.pop()
            result = self._try(part, self._limit_for(part.num_rows, batch.num_rows))
            if isinstance(result, _Death) and part.num_rows == 1:
                result = self._try(part, self._limit_s)
            if not isinstance(result, _Death):
                yield result
            elif part.num_rows == 1:
                yield self._failed(part, result)
            else:
                waiting += reversed(_divided(part, result.row))

    def _limit_for(self, rows: int, all_rows: int) -> float | None:
        """Parts of a batch have a part of the time, or to find a row that hangs would take it a dozen times."""
        if self._limit_s is None:
            return None
        return max(self._limit_s * rows / all_rows, min(self._limit_s, _PART_LIMIT_S))

    def _try(self, part: "pa.RecordBatch", limit_s: float | None) -> "pa.RecordBatch | _Death":
        child = self._child or _Child(self._work, self._function)
        self._child = child
        result = child.compute(part, limit_s)
        if isinstance(result, _Death):
            self._child = None
        return result

    def _failed(self, part: "pa.RecordBatch", death: "_Death") -> "pa.RecordBatch":
        def fail(_: object) -> NoReturn:
            raise WorkerDied(death.sentence(self._limit_s))

        return self._work(part, fail, lambda _: None)


@dataclass(frozen=True, slots=True)
class _Death:
    """How a child ended, and the row that it computed then; negative if that is unknown."""

    status: int
    took_s: float
    row: int

    def sentence(self, limit_s: float | None) -> str:
        """A sentence for the row that it died of."""
        if limit_s is not None and self.status == 1 and self.took_s >= limit_s:
            return f"the row was not done within {spoken(round(limit_s * 1000))} (row_timeout)"
        if self.status < 0:
            return f"the Python process that computed the row was killed by {signal.Signals(-self.status).name}"
        return f"the Python process that computed the row ended with exit code {self.status}"


def _divided(part: "pa.RecordBatch", suspect: int) -> "list[pa.RecordBatch]":
    """Around the row that is suspected, or in halves."""
    cuts = [part.num_rows // 2] if suspect < 0 else [suspect, suspect + 1]
    places = [0, *cuts, part.num_rows]
    parts = [part.slice(start, end - start) for start, end in pairwise(places)]
    return [each for each in parts if each.num_rows]


class _Child:
    """A forked process that computes batches until it is ended, or dies of one."""

    def __init__(self, work: Work, function: Callable[..., Any]) -> None:
        _warm_up()
        self._at = mmap.mmap(-1, 8)
        to_read, self._requests = os.pipe()
        self._replies, to_write = os.pipe()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._requests)
            os.close(self._replies)
            _serve(work, function, to_read, to_write, self._at, parent)
        os.close(to_read)
        os.close(to_write)

    def compute(self, batch: "pa.RecordBatch", limit_s: float | None) -> "pa.RecordBatch | _Death":
        """The result of a batch, or how the process ended. Raises RuntimeError for what `work` has raised."""
        struct.pack_into("<q", self._at, 0, IDLE)
        started_at = time.monotonic()
        try:
            _send(self._requests, _BATCH, _packed(batch), math.inf if limit_s is None else limit_s)
            reply = _receive(self._replies)
        except BrokenPipeError:
            reply = None
        if reply is None:
            (row,) = struct.unpack_from("<q", self._at, 0)
            return _Death(self.end(), time.monotonic() - started_at, row)
        kind, _, data = reply
        if kind == _ERROR:
            raise RuntimeError(data.decode("utf-8", "replace"))
        return _unpacked(data)

    def end(self) -> int:
        """End the process; its exit code, or the negative number of the signal that killed it."""
        os.close(self._requests)
        os.close(self._replies)
        _, status = os.waitpid(self._pid, 0)
        self._at.close()
        return os.waitstatus_to_exitcode(status)


def _warm_up() -> None:
    """Arrow imports pandas when it first makes a column: once in the worker, and not in every child."""
    import pyarrow as pa

    pa.array([None])


def _serve(
    work: Work, function: Callable[..., Any], to_read: int, to_write: int, at: mmap.mmap, parent: int
) -> NoReturn:
    """What a child does. It never returns into the code that forked it."""
    try:
        _die_with(parent)
        while (request := _receive(to_read)) is not None:
            _, limit_s, data = request
            with Watchdog(None if limit_s == math.inf else limit_s) as watchdog:

                def note(row: int, watchdog: Watchdog = watchdog) -> None:
                    struct.pack_into("<q", at, 0, row)
                    watchdog.beat(row)

                kind: bytes
                reply: bytes | pa.Buffer
                try:
                    kind, reply = _BATCH, _packed(work(_unpacked(data), function, note))
                except BaseException as error:  # noqa: BLE001 - sent to the parent
                    kind, reply = _ERROR, f"{type(error).__name__}: {error}".encode("utf-8", "replace")
            sys.stdout.flush()
            sys.stderr.flush()
            _send(to_write, kind, reply, 0.0)
        os._exit(0)
    except BaseException:  # noqa: BLE001 - a forked child must never return
        os._exit(1)


def _die_with(parent: int) -> None:
    """End when the worker does, which may be killed: by then the rows of this process are of no use."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def _packed(batch: "pa.RecordBatch") -> "pa.Buffer":
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    return out.getvalue()


def _unpacked(data: bytes) -> "pa.RecordBatch":
    import pyarrow as pa

    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()


def _send(pipe: int, kind: bytes, data: "bytes | pa.Buffer", limit_s: float) -> None:
    for part in (_HEAD.pack(kind, limit_s, len(data)), data):
        left = memoryview(part)
        while left:
            left = left[os.write(pipe, left) :]


def _receive(pipe: int) -> tuple[bytes, float, bytes] | None:
    head = _read(pipe, _HEAD.size)
    if head is None:
        return None
    kind, limit_s, size = _HEAD.unpack(head)
    data = _read(pipe, size)
    return None if data is None else (kind, limit_s, data)


def _read(pipe: int, size: int) -> bytes | None:
    """So many bytes; None if the other side has ended."""
    data = bytearray()
    while len(data) < size:
        piece = os.read(pipe, min(size - len(data), 1 << 20))
        if not piece:
            return None
        data += piece
    return bytes(data)
