"""The Zstandard frame format (RFC 8878), as far as needed to limit its content.

Java's producer does not write the size of the content, so the limit comes from the block headers: no block has more
than 128 KiB. Called by `compression` only.
"""

from tidelog.records.errors import CorruptRecordError

_MAGIC = 0xFD2FB528
_SKIPPABLE_MAGIC = 0x184D2A50
_BLOCK_CONTENT_BYTES_MAX = 128 * 1024
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_RAW, _RUN_LENGTH, _COMPRESSED = range(3)


def measure(data: bytes | bytearray | memoryview) -> tuple[int | None, int]:
    """The declared content size of all frames in `data` (None if one has none), and the largest possible size."""
    view = memoryview(data)
    declared: int | None = 0
    content_bytes_max = 0
    position = 0
    while position < len(view):
        magic = int.from_bytes(view[position : position + 4], "little")
        if magic & 0xFFFF_FFF0 == _SKIPPABLE_MAGIC:
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
            continue
        if magic != _MAGIC:
            raise CorruptRecordError(f"zstd data of {len(view)} bytes has no frame at byte {position}")
        position, frame_declared, has_checksum = _frame_header(view, position + 4)
        declared = None if declared is None or frame_declared is None else declared + frame_declared
        position, frame_max = _blocks(view, position)
        content_bytes_max += frame_max if frame_declared is None else min(frame_max, frame_declared)
        position += 4 if has_checksum else 0
    return declared, content_bytes_max


def _frame_header(view: memoryview, position: int) -> tuple[int, int | None, bool]:
    """Where the blocks start, the declared content size, and whether a checksum follows the blocks."""
    if position >= len(view):
        raise CorruptRecordError(f"zstd data of {len(view)} bytes is cut off in a frame header")
    descriptor = view[position]
    is_single_segment = bool(descriptor & 0x20)
    position += (1 if is_single_segment else 2) + _DICTIONARY_ID_BYTES[descriptor & 3]
    size_bytes = _CONTENT_SIZE_BYTES[descriptor >> 6]
    if size_bytes == 0 and is_single_segment:
        size_bytes = 1
    declared: int | None = None
    if size_bytes:
        declared = int.from_bytes(view[position : position + size_bytes], "little") + (256 if size_bytes == 2 else 0)
    return position + size_bytes, declared, bool(descriptor & 4)


def _blocks(view: memoryview, position: int) -> tuple[int, int]:
    """Where the frame's blocks end and the most bytes they can hold."""
    content_bytes_max = 0
    is_last = False
    while not is_last:
        if position + 3 > len(view):
            raise CorruptRecordError(f"zstd data of {len(view)} bytes is cut off in a block header")
        header = int.from_bytes(view[position : position + 3], "little")
        is_last = bool(header & 1)
        kind, size = header >> 1 & 3, header >> 3
        if kind > _COMPRESSED:
            raise CorruptRecordError(f"zstd data has a block of the reserved kind at byte {position}")
        content_bytes_max += _BLOCK_CONTENT_BYTES_MAX if kind == _COMPRESSED else size
        position += 3 + (1 if kind == _RUN_LENGTH else size)
    return position, content_bytes_max
