"""The codecs: what they write and read, and that no data makes them exceed a limit."""

import gzip
import struct
import tracemalloc

import cramjam
import pytest

from tests.unit.records.golden import GOLDEN
from tidelog.records import _lz4_frame
from tidelog.records.compression import (
    Codec,
    compress,
    compress_lz4_for_magic_0,
    decompress,
    decompress_lz4_of_magic_0,
)
from tidelog.records.errors import CorruptRecordError

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LEVELS: list[tuple[Codec, int | None]] = [(Codec.GZIP, -1), (Codec.GZIP, 1), (Codec.GZIP, 9)]
LEVELS += [
    (Codec.LZ4, 1),
    (Codec.LZ4, 9),
    (Codec.LZ4, 17),
    (Codec.ZSTD, -131072),
    (Codec.ZSTD, 22),
    (Codec.SNAPPY, None),
]
TEXT = b"".join(b"line %d of some text that repeats itself\n" % number for number in range(4000))
LIMIT = 1 << 20


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one byte", "long"])
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    for form in (data, bytearray(data), memoryview(data)):
        assert decompress(codec, compress(codec, form), LIMIT) == data
    assert decompress(codec, memoryview(compress(codec, data)), LIMIT) == data


@pytest.mark.parametrize(("codec", "level"), LEVELS)
def test_every_level_is_readable(codec: Codec, level: int | None) -> None:
    assert decompress(codec, compress(codec, TEXT, level), LIMIT) == TEXT


@pytest.mark.parametrize(("codec", "weak", "strong"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, -100, 19)])
def test_levels_matter(codec: Codec, weak: int, strong: int) -> None:
    """Kafka's LZ4 level 9 is the default and stands for the fast compressor, weaker than any other level."""
    words = b"".join(b"%d " % (number * number % 9973) for number in range(20_000))
    assert len(compress(codec, words, strong)) < len(compress(codec, words, weak))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_limit_is_exact(codec: Codec) -> None:
    data = compress(codec, TEXT)
    assert decompress(codec, data, len(TEXT)) == TEXT
    with pytest.raises(CorruptRecordError, match=rf"{len(data)} bytes .*limit of {len(TEXT) - 1}"):
        decompress(codec, data, len(TEXT) - 1)


def test_uncompressed_data_is_held_to_the_limit_too() -> None:
    assert decompress(Codec.NONE, b"abc", 3) == b"abc"
    with pytest.raises(CorruptRecordError):
        decompress(Codec.NONE, b"abc", 2)


def zstd_bomb(size: int, declared: int | None) -> bytes:
    """A frame of run-length blocks: four bytes stand for 128 KiB."""
    header = b"\x00\x58" if declared is None else b"\xe0" + declared.to_bytes(8, "little")
    count = size >> 17
    block = struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"z"
    last = struct.pack("<I", (1 << 17) << 3 | 1 << 1 | 1)[:3] + b"z"
    return b"\x28\xb5\x2f\xfd" + header + block * (count - 1) + last


def lz4_bomb(size: int) -> bytes:
    block = bytes(cramjam.lz4.compress_block(bytes(4 << 20), store_size=False))
    frame = b"\x04\x22\x4d\x18\x60\x70\x00" + (struct.pack("<I", len(block)) + block) * (size >> 22) + bytes(4)
    return _lz4_frame.mend_header_checksum(frame)


def snappy_bomb(size: int) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(1 << 16)))
    frame = struct.pack(">i", len(block)) + block
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + frame * (size >> 16)


BOMBS = {
    "gzip": (Codec.GZIP, gzip.compress(bytes(64 << 20), 1)),
    "gzip of many members": (Codec.GZIP, gzip.compress(bytes(1 << 19)) * 200),
    "zstd": (Codec.ZSTD, zstd_bomb(1 << 30, None)),
    "zstd that says so": (Codec.ZSTD, zstd_bomb(1 << 30, 1 << 30)),
    "zstd that lies": (Codec.ZSTD, zstd_bomb(1 << 30, 100)),
    "zstd of many frames": (Codec.ZSTD, zstd_bomb(1 << 19, None) * 200),
    "lz4": (Codec.LZ4, lz4_bomb(1 << 30)),
    "snappy": (Codec.SNAPPY, snappy_bomb(1 << 26)),
    "snappy that claims 4 GB": (Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(20)),
}


@pytest.mark.parametrize(("codec", "bomb"), BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_is_refused_within_the_limit(codec: Codec, bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError):
            decompress(codec, bomb, LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * LIMIT


@pytest.mark.parametrize("codec", COMPRESSED)
def test_damaged_data_is_corrupt(codec: Codec) -> None:
    data = compress(codec, TEXT)
    for damaged in (b"", b"\1", data[: len(data) // 2], data[:-1], b"garbage that is no stream at all"):
        with pytest.raises(CorruptRecordError):
            decompress(codec, damaged, LIMIT)


def test_snappy_is_written_in_blocks_and_read_in_any_form() -> None:
    """Java writes the xerial framing; other clients send raw blocks. A stream may also hold several streams."""
    framed = compress(Codec.SNAPPY, TEXT)
    assert framed.startswith(b"\x82SNAPPY\0" + b"\0\0\0\1" * 2)
    assert decompress(Codec.SNAPPY, framed + framed, LIMIT) == TEXT + TEXT
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), LIMIT) == TEXT
    little_endian_versions = framed[:8] + b"\1\0\0\0" * 2 + framed[16:]
    assert decompress(Codec.SNAPPY, little_endian_versions, LIMIT) == TEXT


def test_gzip_members_are_read_one_after_the_other_and_padding_is_left() -> None:
    data = compress(Codec.GZIP, b"one,") + compress(Codec.GZIP, b"two") + bytes(5)
    assert decompress(Codec.GZIP, data, LIMIT) == b"one,two"


def test_lz4_blocks_stand_alone_as_kafka_requires() -> None:
    frame = compress(Codec.LZ4, TEXT)
    assert frame[4] & 0x20
    assert decompress(Codec.LZ4, frame + b"after the frame", LIMIT) == TEXT


def test_lz4_frames_with_every_optional_part_are_read() -> None:
    linked = cramjam.lz4.Compressor(level=1, content_checksum=True, block_linked=True)
    linked.compress(TEXT)
    frame = bytes(linked.finish())
    assert decompress(Codec.LZ4, frame, LIMIT) == TEXT
    with_size = bytearray(compress(Codec.LZ4, TEXT))
    with_size[4] |= 0x08
    with_size[6:6] = len(TEXT).to_bytes(8, "little")
    assert decompress(Codec.LZ4, _lz4_frame.mend_header_checksum(with_size), LIMIT) == TEXT


def test_lz4_of_magic_0_has_the_historic_checksum() -> None:
    """Early clients hashed the magic number too, and for magic 0 Kafka still writes what they did."""
    message = GOLDEN["magic 0 lz4"]
    kafkas = message[message.index(b"\x04\x22\x4d\x18") :]
    assert _lz4_frame.break_header_checksum(_lz4_frame.mend_header_checksum(kafkas)) == kafkas
    old = compress_lz4_for_magic_0(TEXT)
    right = compress(Codec.LZ4, TEXT)
    assert [index for index in range(len(old)) if old[index] != right[index]] == [6]
    with pytest.raises(CorruptRecordError):
        decompress(Codec.LZ4, old, LIMIT)
    assert decompress_lz4_of_magic_0(old, LIMIT) == decompress_lz4_of_magic_0(right, LIMIT) == TEXT


@pytest.mark.parametrize(
    ("data", "digest"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"Nobody inspects the spammish repetition", 0xE2293B2F)],
)
def test_xxh32_is_the_published_one(data: bytes, digest: int) -> None:
    assert _lz4_frame._xxh32(data) == digest


def test_zstd_frames_may_be_skippable_or_many() -> None:
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"12345"
    frame = compress(Codec.ZSTD, b"text")
    assert decompress(Codec.ZSTD, skippable + frame + frame, LIMIT) == b"texttext"
