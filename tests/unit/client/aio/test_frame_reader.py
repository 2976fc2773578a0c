import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.client.aio.frame_reader import FrameReader
from tidelog.wire.errors import WireError


def feed(reader: FrameReader, data: bytes, chunk: int) -> list[bytes]:
    """Hand `data` over as a transport would, at most `chunk` bytes at a time."""
    frames: list[bytes] = []
    position = 0
    while position < len(data):
        room = reader.room()
        assert len(room) > 0
        piece = data[position : position + min(chunk, len(room))]
        room[: len(piece)] = piece
        frames += [bytes(frame) for frame in reader.advance(len(piece))]
        position += len(piece)
    return frames


@given(
    st.lists(st.sampled_from([4, 5, 100, 65_532, 65_536, 65_537, 200_000]), max_size=5),
    st.sampled_from([1 << 20, 65_536, 4097, 7]),
)
@settings(deadline=None, max_examples=40)
def test_frames_come_whole_however_they_are_cut(sizes: list[int], chunk: int) -> None:
    if chunk == 7:
        sizes = [size for size in sizes if size < 1000]
    sent = [bytes([index % 251]) * size for index, size in enumerate(sizes)]
    stream = b"".join(struct.pack(">i", len(frame)) + frame for frame in sent)
    assert feed(FrameReader(), stream, chunk) == sent


def test_a_large_frame_is_read_into_a_buffer_of_its_own() -> None:
    reader = FrameReader()
    size = 1_000_000
    feed(reader, struct.pack(">i", size) + b"abc", 1 << 20)
    assert len(reader.room()) == size - 3


@pytest.mark.parametrize("length", [-1, 0, 3, int.from_bytes(b"HTTP", "big")])
def test_a_length_that_cannot_be_one_is_refused(length: int) -> None:
    with pytest.raises(WireError, match=f"reply length of {length} bytes"):
        feed(FrameReader(), struct.pack(">i", length), 100)


def _read_large(reader: FrameReader, fill: bytes, size: int = 200_000) -> memoryview:
    """A large frame as its owner gets it."""
    stream = struct.pack(">i", size) + fill * size
    found: list[bytes | memoryview] = []
    while stream:
        room = reader.room()
        count = min(len(room), len(stream))
        room[:count] = stream[:count]
        del room
        found += reader.advance(count)
        stream = stream[count:]
    (frame,) = found
    assert isinstance(frame, memoryview)
    return frame


def test_memory_of_a_large_frame_is_used_again_once_nothing_looks_at_it() -> None:
    reader = FrameReader()
    first = _read_large(reader, b"a").obj
    assert _read_large(reader, b"b").obj is first
    smaller = _read_large(reader, b"c", 100_000)
    assert smaller.obj is first
    assert len(smaller) == 100_000


def test_a_frame_that_is_looked_at_is_not_written_over() -> None:
    """A view of a part is enough to hold all of it."""
    reader = FrameReader()
    parts = [_read_large(reader, bytes([97 + index]))[5:10] for index in range(5)]
    assert [bytes(part) for part in parts] == [bytes([97 + index]) * 5 for index in range(5)]
    assert len({id(part.obj) for part in parts}) == 5
