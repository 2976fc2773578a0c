"""Random and damaged bytes: parsers answer with their own errors, in bounded memory, and with nothing else."""

import contextlib
import tracemalloc
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.records.strategies import NOW_MS, codecs, legacy_codecs, record_lists
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.checksum import crc32c
from tidelog.records.compression import Codec, compress, decompress, decompress_lz4_of_magic_0
from tidelog.records.control import parse_end_transaction_marker
from tidelog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)
from tidelog.records.header import HEADER_BYTES, check_crc, read_header
from tidelog.records.legacy import convert_down, convert_up, iterate_legacy_records
from tidelog.records.record import Record
from tidelog.records.validation import AppendRules, validate

LIMIT = 1 << 18
some = settings(max_examples=examples(60), deadline=None)


def walk(items: Iterable[object]) -> None:
    for _ in items:
        pass


def validate_all(data: bytes) -> None:
    """Every way through `validate`, each of which may end in an error of the protocol."""
    for rules in (
        AppendRules(decompressed_bytes_max=LIMIT),
        AppendRules(is_compacted=True, decompressed_bytes_max=LIMIT),
        AppendRules(codec=Codec.NONE, before_max_ms=1000, after_max_ms=1000, decompressed_bytes_max=LIMIT),
    ):
        with contextlib.suppress(
            CorruptRecordError, InvalidRecordError, RecordTooLargeError, UnsupportedCompressionError
        ):
            validate(data, rules, base_offset=7, leader_epoch=1, now_ms=NOW_MS, only_magic_2=False)


PARSERS: list[Callable[[bytes], object]] = [
    read_header,
    lambda data: walk(iterate_batches(data)),
    lambda data: walk(iterate_records(data, limit_bytes=LIMIT)),
    lambda data: check_crc(data, 0, read_header(data)),
    lambda data: walk(iterate_legacy_records(data, limit_bytes=LIMIT)),
    lambda data: convert_up(data, limit_bytes=LIMIT),
    lambda data: convert_down(data, 1, limit_bytes=LIMIT),
    lambda data: parse_end_transaction_marker(Record(0, 0, data[:4], data[4:])),
    validate_all,
]


def feed(data: bytes) -> None:
    for parse in PARSERS:
        with contextlib.suppress(CorruptRecordError, InvalidRecordError, UnsupportedCompressionError):
            parse(data)


@st.composite
def damaged(draw: st.DrawFn, original: bytes) -> bytes:
    """`original` with a few bytes replaced, removed, doubled or cut off."""
    data = bytearray(original)
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(st.integers(0, 3))
        if kind == 0 and data:
            data[position] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF, draw(st.integers(0, 255))]))
        elif kind == 1:
            del data[position : position + draw(st.integers(1, 8))]
        elif kind == 2:
            data[position:position] = data[position : position + draw(st.integers(1, 8))]
        else:
            del data[position:]
    return bytes(data)


def resealed(batch: bytes) -> bytes:
    """The batch with the length and checksum its bytes call for, so that the damage inside is reached."""
    if len(batch) < HEADER_BYTES:
        return batch
    data = bytearray(batch)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


@some
@given(st.binary(max_size=300))
def test_random_bytes(data: bytes) -> None:
    feed(data)


@some
@given(st.data(), record_lists(max_size=4), codecs)
def test_damaged_batches(data: st.DataObject, records: list[Record], codec: Codec) -> None:
    broken = data.draw(damaged(build_batch(records, codec=codec)))
    feed(broken)
    feed(resealed(broken))


@some
@given(st.data(), record_lists(max_size=4), legacy_codecs, st.sampled_from([0, 1]))
def test_damaged_message_sets(data: st.DataObject, records: list[Record], codec: Codec, magic: int) -> None:
    feed(data.draw(damaged(convert_down(build_batch(records, codec=codec), magic))))


@some
@given(st.data(), st.binary(max_size=200), st.integers(1, 200), codecs)
def test_damaged_streams_stay_within_the_limit(data: st.DataObject, unit: bytes, repeats: int, codec: Codec) -> None:
    broken = data.draw(damaged(compress(codec, unit * repeats)))
    for read in (lambda: decompress(codec, broken, LIMIT), lambda: decompress_lz4_of_magic_0(broken, LIMIT)):
        with contextlib.suppress(CorruptRecordError):
            assert len(read()) <= LIMIT


@pytest.mark.parametrize("codec", Codec)
def test_claims_of_size_cost_no_memory(codec: Codec) -> None:
    """Every four bytes of a batch and of its stream in turn become the largest number there is."""
    batch = build_batch([Record(index, NOW_MS, b"key", b"value" * 20) for index in range(2)], codec=codec)
    tracemalloc.start()
    try:
        for position in range(len(batch) - 4):
            for claim in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f"):
                feed(resealed(batch[:position] + claim + batch[position + 4 :]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * LIMIT
