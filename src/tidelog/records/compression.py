"""Compression and decompression with the five codecs of record data, with a limit on the decompressed size.

Called by the batch reader and builder, by the converters of old formats and by an append that recompresses. A few bytes
can expand to gigabytes, so every decoder has a limit and never writes beyond it: declared sizes are checked before
memory is allocated, and the output buffer is never larger than the limit.

`cramjam` is imported with the first batch that needs it: a broker that only passes batches on never does.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from mmap import mmap
from typing import Any

from tidelog.records import _lz4_frame, _snappy_frame, _zstd_frame
from tidelog.records.errors import CorruptRecordError, ExpansionError

Buffer = bytes | bytearray | memoryview

DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
"""The default limit of the decompressed size of a batch."""


class Codec(IntEnum):
    """The codec of a batch: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DEFAULT_LEVELS = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}

_GZIP_WBITS = 31
_GZIP_WINDOW_BYTES = 64 << 10
"""Input of one zlib call, which copies the bytes it does not use."""
_PIECE_BYTES = 1 << 20
"""Large data is processed in pieces of this size: copying all of it at once would hold the interpreter lock."""
_LZ4_FAST_LEVEL = 1


@cache
def _cramjam() -> Any:
    import cramjam

    return cramjam


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`; `level` is the topic's `compression.<codec>.level` and None stands for Kafka's default."""
    return _COMPRESSORS[codec](data, DEFAULT_LEVELS.get(codec, 0) if level is None else level)


def decompress(codec: Codec, data: Buffer, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Decompress `data`; raises CorruptRecordError when it is malformed, ExpansionError beyond `limit_bytes`."""
    content = _DECOMPRESSORS[codec](data, limit_bytes)
    return content if type(content) is bytes else bytes(content)


def decompress_to_buffer(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """The same without a copy, in the decoder's own buffer; `codec` is the number in the attributes."""
    decoder = _DECOMPRESSORS.get(codec)  # type: ignore[call-overload]
    if decoder is None:
        raise CorruptRecordError(f"unknown compression codec {codec}")
    content: Buffer = decoder(data, limit_bytes)
    return content


def compress_lz4_for_magic_0(data: Buffer, level: int | None = None) -> bytes:
    """An LZ4 frame with the header checksum that the first consumers expected (KAFKA-3160)."""
    return _lz4_frame.break_header_checksum(compress(Codec.LZ4, data, level))


def decompress_lz4_of_magic_0(data: Buffer, limit_bytes: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Read an LZ4 frame whose header checksum may be the correct one or the wrong one of early clients."""
    return bytes(_decompress_lz4(_lz4_frame.mend_header_checksum(data), limit_bytes))


def beyond_limit(
    codec: str, compressed_bytes: int, limit_bytes: int, claimed_bytes: int | None = None
) -> ExpansionError:
    """The error for data that expands beyond the limit."""
    claim = f"to {claimed_bytes} bytes, " if claimed_bytes is not None else ""
    return ExpansionError(f"{codec} data of {compressed_bytes} bytes expands {claim}beyond the limit of {limit_bytes}")


def _compress_none(data: Buffer, _level: int) -> bytes:
    return bytes(data)


def _compress_gzip(data: Buffer, level: int) -> bytes:
    return zlib.compress(data, level, _GZIP_WBITS)


def _compress_snappy(data: Buffer, _level: int) -> bytes:
    return _snappy_frame.encode(data, _cramjam().snappy.compress_raw)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    # Kafka's level 9, its default, selects the fast compressor and every other level the slow one of that strength.
    # Blocks must not refer to each other: Kafka's own reader refuses linked ones.
    fast_or_strong = _LZ4_FAST_LEVEL if level == DEFAULT_LEVELS[Codec.LZ4] else level
    compressor = _cramjam().lz4.Compressor(level=fast_or_strong, content_checksum=False, block_linked=False)
    view = memoryview(data)
    for start in range(0, len(view), _PIECE_BYTES):
        compressor.compress(bytes(view[start : start + _PIECE_BYTES]))
    return bytes(compressor.finish())


def _compress_zstd(data: Buffer, level: int) -> bytes:
    return bytes(_cramjam().zstd.compress(data, level=level))


def _decompress_none(data: Buffer, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise ExpansionError(f"record data of {len(data)} bytes is beyond the limit of {limit_bytes}")
    return bytes(data)


def _decompress_gzip(data: Buffer, limit_bytes: int) -> Buffer:
    """Read all members of the stream; bytes after the last member are ignored, as by Java's reader."""
    view = memoryview(data)
    parts = _Parts(limit_bytes)
    position = 0
    while True:
        inflater = zlib.decompressobj(_GZIP_WBITS)
        while not inflater.eof:
            window = view[position : position + _GZIP_WINDOW_BYTES]
            try:
                part = inflater.decompress(window, min(_PIECE_BYTES, limit_bytes - parts.size + 1))
            except zlib.error as error:
                raise CorruptRecordError(f"gzip data of {len(data)} bytes is malformed: {error}") from error
            position += len(window) - len(inflater.unconsumed_tail) - len(inflater.unused_data)
            if parts.size + len(part) > limit_bytes:
                raise beyond_limit("gzip", len(data), limit_bytes)
            if not part and not window:
                raise CorruptRecordError(f"gzip data of {len(data)} bytes ends too early")
            parts.add(part)
        if bytes(view[position : position + 2]) != b"\x1f\x8b":
            return parts.content()


class _Parts:
    """Content that arrives in parts, of unknown size; a large one is never in memory twice."""

    __slots__ = ("_limit_bytes", "_output", "_parts", "size")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._parts: list[bytes] = []
        self._output: memoryview | None = None
        self.size = 0

    def add(self, part: bytes) -> None:
        if self._output is None and self.size + len(part) > _PIECE_BYTES:
            # Pages that are not written to take no memory.
            self._output = _output(self._limit_bytes)
            self._output[: self.size] = b"".join(self._parts)
            self._parts = []
        if self._output is None:
            self._parts.append(part)
        else:
            self._output[self.size : self.size + len(part)] = part
        self.size += len(part)

    def content(self) -> Buffer:
        if self._output is not None:
            return self._output[: self.size]
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


def _decompress_snappy(data: Buffer, limit_bytes: int) -> Buffer:
    blocks = list(_snappy_frame.blocks(data))
    sizes = [_snappy_frame.uncompressed_size(block) for block in blocks]
    total = sum(sizes)
    if total > limit_bytes:
        raise beyond_limit("snappy", len(data), limit_bytes, total)
    output = _output(total)
    position = 0
    try:
        for block, size in zip(blocks, sizes, strict=True):
            if size:
                _cramjam().snappy.decompress_raw_into(block, output[position : position + size])
            elif len(block) > 1:
                raise CorruptRecordError(f"snappy block of {len(block)} bytes claims to be empty")
            position += size
    except _cramjam().DecompressionError as error:
        raise CorruptRecordError(f"snappy data of {len(data)} bytes is malformed: {error}") from error
    return output


def _decompress_lz4(data: Buffer, limit_bytes: int) -> Buffer:
    frame_bytes, content_bytes_max = _lz4_frame.measure(data)
    return _decompress_into(
        "lz4", _cramjam().lz4.decompress_into, memoryview(data)[:frame_bytes], content_bytes_max, limit_bytes
    )


def _decompress_zstd(data: Buffer, limit_bytes: int) -> Buffer:
    declared_bytes, content_bytes_max = _zstd_frame.measure(data)
    if declared_bytes is not None and declared_bytes > limit_bytes:
        raise beyond_limit("zstd", len(data), limit_bytes, declared_bytes)
    return _decompress_into("zstd", _cramjam().zstd.decompress_into, data, content_bytes_max, limit_bytes)


def _decompress_into(
    codec: str,
    decompress_into: Callable[[Buffer, memoryview], int],
    data: Buffer,
    content_bytes_max: int,
    limit_bytes: int,
) -> Buffer:
    """Run a decoder that stops at the end of its output buffer, which is never larger than the limit."""
    output = _output(min(content_bytes_max, limit_bytes))
    try:
        size = decompress_into(data, output)
    except _cramjam().DecompressionError as error:
        if content_bytes_max > limit_bytes and "write whole buffer" in str(error):
            raise beyond_limit(codec, len(data), limit_bytes) from error
        raise CorruptRecordError(f"{codec} data of {len(data)} bytes is malformed: {error}") from error
    return output[:size]


def _output(size: int) -> memoryview:
    """A buffer to decompress into. A large one is mapped memory, which need not be filled with zeros."""
    return memoryview(mmap(-1, size) if size > _PIECE_BYTES else bytearray(size))


_COMPRESSORS: dict[Codec, Callable[[Buffer, int], bytes]] = {
    Codec.NONE: _compress_none,
    Codec.GZIP: _compress_gzip,
    Codec.SNAPPY: _compress_snappy,
    Codec.LZ4: _compress_lz4,
    Codec.ZSTD: _compress_zstd,
}

_DECOMPRESSORS: dict[Codec, Callable[[Buffer, int], Buffer]] = {
    Codec.NONE: _decompress_none,
    Codec.GZIP: _decompress_gzip,
    Codec.SNAPPY: _decompress_snappy,
    Codec.LZ4: _decompress_lz4,
    Codec.ZSTD: _decompress_zstd,
}
