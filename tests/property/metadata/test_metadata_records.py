"""Random records of the metadata log: read as they were written, and held back by transactions as a whole."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.wire.values import QUICK, objects
from tidelog.metadata.quorum.frames import LogEntry, MetadataRecordError, Transactions, decode_value, encode_value
from tidelog.metadata.quorum.records import (
    RECORDS,
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from tidelog.wire.schema import Message

_VERSIONS = [
    (record, version) for record in RECORDS.values() for version in range(record.versions[0], record.versions[1] + 1)
]


@pytest.mark.parametrize(("record", "version"), _VERSIONS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_a_record_is_read_as_it_was_written(record: type[Message], version: int) -> None:
    @QUICK
    @given(objects(record, version))
    def check(written: Any) -> None:
        assert decode_value(encode_value(written, version)) == written

    check()


@QUICK
@given(st.binary(max_size=64))
def test_no_bytes_do_more_than_be_refused(value: bytes) -> None:
    with suppress(MetadataRecordError):
        decode_value(b"\x01" + value)


@QUICK
@given(st.lists(st.tuples(st.sampled_from(("alone", "committed", "aborted")), st.integers(1, 4)), max_size=8))
def test_what_takes_effect_is_what_no_transaction_dropped_in_the_order_of_the_log(
    runs: list[tuple[str, int]],
) -> None:
    transactions, offset = Transactions(), 0
    effective: list[int] = []
    expected: list[int] = []

    def take(record: Message) -> None:
        nonlocal offset
        effective.extend(entry.offset for entry in transactions.take(LogEntry(offset, record)))
        offset += 1

    for kind, count in runs:
        if kind != "alone":
            take(BeginTransactionRecord())
        if kind != "aborted":
            expected += range(offset, offset + count)
        for _ in range(count):
            take(NoOpRecord())
        if kind != "alone":
            take(EndTransactionRecord() if kind == "committed" else AbortTransactionRecord())
    assert effective == expected
    assert not transactions.is_open
