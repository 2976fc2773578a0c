"""The memory of a producer: the limit after which `send` waits, and reusable buffers.

Each batch reserves what it may grow to when it is begun and gives it back when it is done. Batches are encoded into
buffers of `batch.size`; those are kept and lent again, so a steady stream of batches allocates nothing large.

Pure accounting: the producer does the waiting for memory and counts it in `waiting`. While a call waits, every batch is
due, full or not: sending is the only way to free memory.
"""


class BufferPool:
    """`total_bytes` to reserve from, and spare buffers of `chunk_bytes`."""

    __slots__ = ("_chunk_bytes", "_spare", "_spare_max", "free_bytes", "total_bytes", "waiting")

    def __init__(self, total_bytes: int, chunk_bytes: int, spare_max: int = 64) -> None:
        self.total_bytes = total_bytes
        self.free_bytes = total_bytes
        self.waiting = 0
        self._chunk_bytes = chunk_bytes
        self._spare: list[bytearray] = []
        self._spare_max = spare_max

    def reserve(self, size_bytes: int) -> bool:
        """Take `size_bytes`; False, and nothing taken, if there is not so much."""
        if size_bytes > self.free_bytes:
            return False
        self.free_bytes -= size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        """Give reserved bytes back."""
        self.free_bytes += size_bytes
        assert self.free_bytes <= self.total_bytes, "more memory was released than reserved"

    def lend(self, size_bytes: int) -> bytearray:
        """A buffer of at least `size_bytes`, for an encoded batch."""
        if size_bytes <= self._chunk_bytes and self._spare:
            return self._spare.pop()
        return bytearray(max(size_bytes, self._chunk_bytes))

    def take_back(self, buffer: bytearray) -> None:
        """Keep a buffer for the next batch, unless it is an odd one or there are enough."""
        if len(buffer) == self._chunk_bytes and len(self._spare) < self._spare_max:
            self._spare.append(buffer)
