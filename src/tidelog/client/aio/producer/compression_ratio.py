"""Estimates the compression ratio from sent batches, to decide how many records an open batch takes.

A batch is compressed when it is full, so how full it may get is a guess. The guess follows improvements slowly and
worse news at once, as a batch that is too large costs a refusal and a second attempt.
"""

from typing import Final

from tidelog.records.compression import Codec

_IMPROVING_STEP: Final = 0.02
_SAFETY: Final = 1.05
_BEST: Final = 0.05


class CompressionRatio:
    """The guess of one producer: compressed bytes per byte."""

    __slots__ = ("_is_on", "ratio")

    def __init__(self, codec: Codec) -> None:
        self._is_on = codec is not Codec.NONE
        self.ratio = 1.0

    def uncompressed(self, size_bytes: int) -> int:
        """How many bytes of records make a batch of about `size_bytes`."""
        return int(size_bytes / self.ratio) if self._is_on else size_bytes

    def observe(self, raw_bytes: int, compressed_bytes: int) -> None:
        """A batch was compressed."""
        if not self._is_on or not raw_bytes:
            return
        seen = compressed_bytes / raw_bytes * _SAFETY
        self.ratio = max(seen, self.ratio - _IMPROVING_STEP, _BEST)

    def reset(self) -> None:
        """A batch was too large: reset the estimate until the next batches."""
        self.ratio = 1.0
