"""Reply frames out of a stream of bytes, with no copy of the large ones.

The transport reads into the buffer that `room` offers and then says how much it wrote. Small frames are cut out of a
scratch buffer. A frame that does not fit what has come so far gets a buffer of its own size, and the rest of it is
read straight into that: a Fetch reply of some megabytes is written once, by the kernel. Buffers of large frames are
used again once no view of them is left: pages that are new to a process cost more than what is read into them.

Nothing here knows what a frame means.
"""

from struct import Struct
from typing import Final

from tidelog.wire.errors import WireError

_SCRATCH_BYTES: Final = 64 * 1024
# A web server's "HTTP" or a TLS record (0x14 to 0x17), read as a length, is above this; no reply we ask for is.
REPLY_BYTES_MAX: Final = 0x14000000 - 1
_KEPT_BUFFERS: Final = 2
"""One for the frame that is being read, one for the frame before it, which its owner decodes meanwhile."""
_KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
_LENGTH_BYTES: Final = 4
_CORRELATION_BYTES: Final = 4

_unpack_length = Struct(">i").unpack_from


class FrameReader:
    """Cuts frames. `room` and `advance` mirror `asyncio.BufferedProtocol`."""

    __slots__ = ("_end", "_frame", "_frame_filled", "_memory", "_scratch", "_view")

    def __init__(self) -> None:
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        self._end = 0
        self._frame: memoryview | None = None
        self._frame_filled = 0
        self._memory = _FrameMemory()

    def room(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._view[self._end :]

    def advance(self, count: int) -> list[bytes | memoryview]:
        """`count` bytes were written to `room`; the frames that are complete now, without their lengths."""
        if self._frame is None:
            self._end += count
            return self._cut()
        self._frame_filled += count
        if self._frame_filled < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _cut(self) -> list[bytes | memoryview]:
        frames: list[bytes | memoryview] = []
        view, start, end = self._view, 0, self._end
        while end - start >= _LENGTH_BYTES:
            (length,) = _unpack_length(view, start)
            if not _CORRELATION_BYTES <= length <= REPLY_BYTES_MAX:
                raise WireError(
                    f"invalid reply length of {length} bytes; the address must be a Kafka listener without TLS"
                )
            body = start + _LENGTH_BYTES
            if end - body < length:
                if length > _SCRATCH_BYTES - _LENGTH_BYTES:
                    self._frame = self._memory.take(length)
                    self._frame[: end - body] = view[body:end]
                    self._frame_filled = end - body
                    start = end
                break
            frames.append(bytes(view[body : body + length]))
            start = body + length
        if start:
            view[: end - start] = bytes(view[start:end])
        self._end = end - start
        return frames


class _FrameMemory:
    """The buffers of large frames."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size_bytes: int) -> memoryview:
        """Room for one frame: of a buffer that nothing looks at any more, else new."""
        free = [buffer for buffer in self._buffers if _is_free(buffer)]
        for buffer in free:
            if len(buffer) >= size_bytes:
                return memoryview(buffer)[:size_bytes]
        if size_bytes > _KEPT_BYTES_MAX:
            return memoryview(bytearray(size_bytes))
        for buffer in free:
            self._buffers.remove(buffer)  # too small for what comes now
        buffer = bytearray(min(size_bytes + size_bytes // 4, _KEPT_BYTES_MAX))
        if len(self._buffers) < _KEPT_BUFFERS:
            self._buffers.append(buffer)
        return memoryview(buffer)[:size_bytes]


def _is_free(buffer: bytearray) -> bool:
    """Whether no view of `buffer` exists: Python refuses to change the size of one that is looked at."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
