"""Large buffers are used again, but never while a view of them exists, and never for an announced length alone."""

from __future__ import annotations

import psutil

from tidelog.network.buffers import LARGE_BYTES, BufferPool, reserve


def test_a_buffer_is_used_again_after_its_turn() -> None:
    pool = BufferPool()
    buffer = bytearray(LARGE_BYTES)
    pool.give_back(buffer)
    assert pool.take(LARGE_BYTES, LARGE_BYTES) is None
    pool.end_turn()
    assert pool.take(LARGE_BYTES, LARGE_BYTES) is buffer
    assert len(buffer) == LARGE_BYTES


def test_a_buffer_that_is_still_looked_at_is_not_kept() -> None:
    pool = BufferPool()
    buffer = bytearray(LARGE_BYTES)
    view = memoryview(buffer)[10:20]
    pool.give_back(buffer)
    pool.end_turn()
    assert pool.free_bytes == 0
    assert bytes(view) == bytes(10)


def test_the_smallest_that_fits_is_taken() -> None:
    pool = BufferPool()
    small, large = bytearray(LARGE_BYTES), bytearray(LARGE_BYTES * 4)
    for buffer in (large, small):
        pool.give_back(buffer)
    pool.end_turn()
    assert pool.take(LARGE_BYTES + 1, LARGE_BYTES) is large
    assert pool.take(1, LARGE_BYTES) is small


def test_an_announcement_alone_gets_no_buffer() -> None:
    pool = BufferPool()
    pool.give_back(bytearray(LARGE_BYTES * 16))
    pool.end_turn()
    assert pool.take(LARGE_BYTES * 16, 6) is None
    assert pool.take(LARGE_BYTES * 16, LARGE_BYTES) is not None


def test_the_pool_stays_small() -> None:
    pool = BufferPool()
    for _ in range(100):
        pool.give_back(bytearray(LARGE_BYTES))
    pool.give_back(bytearray(64 << 20))
    pool.end_turn()
    assert pool.free_bytes <= 8 * LARGE_BYTES


def test_reserved_room_takes_no_memory_until_bytes_arrive() -> None:
    """A bytearray is zeroed at once: 40 ms for a frame of 60 MB of which little has arrived."""
    process = psutil.Process()
    before = process.memory_info().rss
    room = reserve(500_000_000)
    assert len(room) == 500_000_000
    assert process.memory_info().rss - before < 100_000_000
    room[499_999_990:] = b"0123456789"
    assert bytes(room[499_999_989:]) == b"\x000123456789"
