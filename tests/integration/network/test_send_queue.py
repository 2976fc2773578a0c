"""What is queued arrives byte for byte, however little the socket takes at a time, and files are not held in memory."""

from __future__ import annotations

import mmap
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.network.send_queue import COPIED_BYTES_MAX, Chunk, SendQueue
from tidelog.network.socket_server import SCRATCH_BYTES
from tidelog.network.transport import PlainTransport
from tidelog.storage._files import FileSlice, OpenFile
from tidelog.storage._pools import open_descriptor

FILE_BYTES = 1 << 20
CONTENT = random.Random(11).randbytes(FILE_BYTES)
"""No two pages are equal: one that is sent in place of another is noticed."""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> OpenFile:
    path = tmp_path_factory.mktemp("sent") / "segment"
    path.write_bytes(CONTENT)
    return OpenFile(open_descriptor(str(path), 0))


class RecordingTransport(PlainTransport):
    """A socket that keeps where each `sendfile` began, and how many bytes were asked of it."""

    def __init__(self, connected: socket.socket) -> None:
        super().__init__(connected)
        self.sent_files: list[tuple[int, int]] = []

    def sendfile(self, fd: int, position: int, count: int) -> int:
        self.sent_files.append((position, count))
        return super().sendfile(fd, position, count)


class Pair:
    """A queue, and the socket at which what it sends arrives. The kernel between them holds little."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.sender = socket.create_connection(listening.getsockname())
            self.receiver, _ = listening.accept()
        self.sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
        self.sender.setblocking(False)
        self.receiver.settimeout(20)
        self.transport = RecordingTransport(self.sender)
        self.queue = SendQueue(self.transport, memoryview(bytearray(SCRATCH_BYTES)))

    def transfer(self, total: int) -> bytes:
        """Send and receive in turns until `total` bytes have come."""
        received = bytearray()
        while len(received) < total:
            if self.queue.chunks:
                self.queue.send()
            received += self.receiver.recv(1 << 16)
        return bytes(received)

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


BORDERS = [
    mmap.PAGESIZE,
    32_768,
    32_769,
    COPIED_BYTES_MAX,
    COPIED_BYTES_MAX + 1,
    SCRATCH_BYTES,
    SCRATCH_BYTES + 1,
    400_000,
]
sizes = st.integers(1, 100) | st.integers(1, 70_000) | st.sampled_from(BORDERS)
pieces = st.lists(st.tuples(st.booleans(), sizes), min_size=1, max_size=8)


@given(pieces=pieces)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bytes_and_slices_arrive_in_order(pair: Pair, file: OpenFile, pieces: list[tuple[bool, int]]) -> None:
    chunks: list[Chunk] = []
    expected = bytearray()
    for number, (is_slice, size) in enumerate(pieces):
        position = number * 1000
        chunks.append(FileSlice(file, position, size) if is_slice else bytes([number]) * size)
        expected += CONTENT[position : position + size] if is_slice else bytes([number]) * size
    pair.queue.chunks.extend(chunks)
    assert pair.transfer(len(expected)) == bytes(expected)
    assert not pair.queue.chunks


@given(pieces=pieces)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_reply_that_is_sent_at_once_arrives_as_one_that_is_queued(
    pair: Pair, file: OpenFile, pieces: list[tuple[bool, int]]
) -> None:
    """Whole, or in part when the socket is full, or not at all when it is long; the rest is queued."""
    reply: list[Chunk] = []
    expected = bytearray()
    for number, (is_slice, size) in enumerate(pieces):
        position = number * 1000
        reply.append(FileSlice(file, position, size) if is_slice else bytes([number]) * size)
        expected += CONTENT[position : position + size] if is_slice else bytes([number]) * size
    size, sent = pair.queue.send_at_once(reply)
    assert size == (len(expected) if len(expected) <= COPIED_BYTES_MAX else 0)
    assert 0 <= sent <= size
    pair.queue.put_rest(reply, sent)
    assert bool(pair.queue.chunks) == (sent < len(expected))
    assert pair.transfer(len(expected)) == bytes(expected)
    assert not pair.queue.chunks


@pytest.mark.parametrize("size", [COPIED_BYTES_MAX, SCRATCH_BYTES, SCRATCH_BYTES + 1])
def test_a_peer_that_does_not_read_has_nothing_held_for_it(pair: Pair, file: OpenFile, size: int) -> None:
    """The rest of a slice stays in its file, also of one that is small enough to be read."""
    slice_ = FileSlice(file, 5, size)
    pair.queue.chunks.extend([b"head", slice_, b"tail"])
    pair.queue.send()
    assert list(pair.queue.chunks) == [slice_, b"tail"]
    assert pair.transfer(size + 8) == b"head" + CONTENT[5 : 5 + size] + b"tail"


@pytest.mark.parametrize("size", [100, SCRATCH_BYTES + 1])
def test_a_file_that_is_shorter_than_promised_ends_the_connection(pair: Pair, tmp_path: Path, size: int) -> None:
    """The peer has received a length: what comes next on this connection could only be misunderstood."""
    path = tmp_path / "cut"
    path.write_bytes(b"short")
    pair.queue.chunks.extend([b"head", FileSlice(OpenFile(open_descriptor(str(path), 0)), 0, size)])
    with pytest.raises(ConnectionAbortedError):
        pair.queue.send()


def test_the_first_bytes_of_a_reply_leave_before_the_rest_is_read(tmp_path: Path) -> None:
    """The peer wakes up meanwhile. Seen by a rest that cannot be read."""
    pair = Pair()
    pair.sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    path = tmp_path / "cut"
    path.write_bytes(CONTENT[:20_000])
    reply: list[Chunk] = [b"head", FileSlice(OpenFile(open_descriptor(str(path), 0)), 0, 60_000)]
    with pytest.raises(ConnectionAbortedError):
        pair.queue.send_at_once(reply)
    assert pair.transfer(16_384) == b"head" + CONTENT[: 16_384 - 4]
    pair.close()


@pytest.mark.parametrize("position", [0, 1, mmap.PAGESIZE - 1, mmap.PAGESIZE])
def test_only_whole_pages_of_a_long_slice_go_by_sendfile(file: OpenFile, position: int) -> None:
    """16 whole pages fill a segment; a slice that begins or ends inside a page would be cut into more of them."""
    pair = Pair()
    pair.sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    size = COPIED_BYTES_MAX + mmap.PAGESIZE + 77
    pair.queue.chunks.extend([b"head", FileSlice(file, position, size), b"tail"])
    assert pair.transfer(size + 8) == b"head" + CONTENT[position : position + size] + b"tail"
    first = pair.transport.sent_files[0]
    page = mmap.PAGESIZE
    assert first == (-(-position // page) * page, ((position + size) // page - -(-position // page)) * page)
    pair.close()


def test_small_slices_leave_together_with_what_stands_around_them(file: OpenFile) -> None:
    """Ten partitions are one packet's worth: one receive gets them all, as one call sent them."""
    pair = Pair()
    chunks = [piece for number in range(10) for piece in (b"<", FileSlice(file, number, 50), b">")]
    pair.queue.chunks.extend(chunks)
    pair.queue.send()
    assert pair.receiver.recv(1 << 16) == b"".join(b"<" + CONTENT[n : n + 50] + b">" for n in range(10))
    pair.close()
