"""Records of metadata in their log: the frame of a value, batches, transactions that span them."""

import pytest

from tidelog.metadata.quorum.frames import (
    LogEntry,
    MetadataRecordError,
    Transactions,
    decode_batches,
    decode_value,
    encode_value,
)
from tidelog.metadata.quorum.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    NoOpRecord,
    TopicRecord,
)
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.record import Record
from tidelog.wire.schema import Message

TOPIC = TopicRecord(name="t", topic_id=b"t" * 16)


def test_a_value_comes_back() -> None:
    assert decode_value(encode_value(TOPIC, 0)) == TOPIC


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"\x02\x02\x00", "frame of version 2"),
        (b"\x01\x63\x00", "unknown kind 99"),
        (b"\x01\x02\x07", "TopicRecord of version 7"),
        (b"", "cannot be read"),
        (b"\x01", "cannot be read"),
        (b"\x01\x02\x00\x05a", "cannot be read"),
    ],
)
def test_what_is_not_known_is_an_error_that_says_what_it_is(value: bytes, why: str) -> None:
    with pytest.raises(MetadataRecordError, match=why):
        decode_value(value)


def test_batches_give_their_records_with_offsets_and_control_batches_give_none() -> None:
    values = [encode_value(NoOpRecord(), 0), encode_value(TOPIC, 0)]
    records = [Record(7 + index, 5, None, value) for index, value in enumerate(values)]
    batch = build_batch(records, base_offset=7, partition_leader_epoch=3)
    control = build_end_transaction_marker(
        is_commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=9
    )
    first, second = decode_batches(bytes(batch) + bytes(control) + bytes(batch)[:30])
    assert first.entries == (LogEntry(7, NoOpRecord()), LogEntry(8, TOPIC))
    assert (first.last_offset, first.leader_epoch, first.timestamp_ms) == (8, 3, 5)
    assert second.entries == ()


def taken(*records: Message) -> list[list[Message]]:
    """What takes effect with each record."""
    transactions = Transactions()
    return [
        [entry.record for entry in transactions.take(LogEntry(offset, record))] for offset, record in enumerate(records)
    ]


def test_outside_a_transaction_a_record_takes_effect_at_once() -> None:
    assert taken(TOPIC) == [[TOPIC]]


def test_a_transaction_takes_effect_at_its_end() -> None:
    config = ConfigRecord(resource_type=2, resource_name="t", name="a", value="b")
    records = BeginTransactionRecord(), TOPIC, config, EndTransactionRecord(), TOPIC
    assert taken(*records) == [[], [], [], [TOPIC, config], [TOPIC]]


def test_a_transaction_that_is_aborted_never_takes_effect() -> None:
    assert taken(BeginTransactionRecord(), TOPIC, AbortTransactionRecord(), TOPIC) == [[], [], [], [TOPIC]]


@pytest.mark.parametrize(
    "records",
    [
        (BeginTransactionRecord(), BeginTransactionRecord()),
        (EndTransactionRecord(),),
        (AbortTransactionRecord(),),
    ],
)
def test_transactions_that_do_not_pair_up_are_refused(records: tuple[Message, ...]) -> None:
    with pytest.raises(MetadataRecordError, match="at offset"):
        taken(*records)
