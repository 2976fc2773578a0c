from tidelog.client.aio.producer.buffer_pool import BufferPool
from tidelog.client.aio.producer.compression_ratio import CompressionRatio
from tidelog.records.compression import Codec


def test_what_is_reserved_is_missing_until_it_is_released() -> None:
    pool = BufferPool(100, 10)
    assert pool.reserve(60)
    assert not pool.reserve(41)
    assert pool.free_bytes == 40
    assert pool.reserve(40)
    pool.release(60)
    assert pool.reserve(41)


def test_buffers_are_lent_again() -> None:
    pool = BufferPool(100, 10)
    lent = pool.lend(8)
    assert len(lent) == 10
    pool.take_back(lent)
    assert pool.lend(10) is lent
    assert pool.lend(5) is not lent


def test_odd_sizes_and_more_than_enough_are_not_kept() -> None:
    pool = BufferPool(1000, 10, spare_max=2)
    large = pool.lend(500)
    assert len(large) == 500
    pool.take_back(large)
    assert pool.lend(10) is not large
    spare = [bytearray(10) for _ in range(5)]
    for buffer in spare:
        pool.take_back(buffer)
    lent = [pool.lend(10) for _ in range(3)]
    assert [any(buffer is each for each in spare) for buffer in lent] == [True, True, False]


def test_a_good_ratio_is_believed_slowly_and_a_bad_one_at_once() -> None:
    ratio = CompressionRatio(Codec.LZ4)
    assert ratio.uncompressed(1000) == 1000
    for _ in range(10):
        ratio.observe(1000, 100)
    assert 1000 < ratio.uncompressed(1000) < 1500
    ratio.observe(1000, 990)
    assert ratio.uncompressed(1000) < 1000
    ratio.reset()
    assert ratio.uncompressed(1000) == 1000


def test_without_a_codec_there_is_nothing_to_guess() -> None:
    ratio = CompressionRatio(Codec.NONE)
    ratio.observe(1000, 10)
    assert ratio.uncompressed(1000) == 1000
