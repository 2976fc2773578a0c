"""Large buffers are used again, but never while somebody looks at them, and never for a promise alone."""

from __future__ import annotations

from tidelog.network.buffers import LARGE_BYTES, BufferPool


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
