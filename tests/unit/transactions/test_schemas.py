"""The records of `__transaction_state`, byte by byte."""

from typing import Any

import pytest

from tidelog.transactions.schemas import (
    SchemaError,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction

ONGOING = Transaction(
    "orders",
    producer_id=7,
    producer_epoch=3,
    timeout_ms=60_000,
    state=TransactionState.ONGOING,
    partitions=frozenset({("b", 0), ("a", 2), ("a", 1)}),
    start_ms=1_000,
    updated_ms=2_000,
)
ONGOING_BYTES = bytes.fromhex(
    "0000"  # version
    "0000000000000007"  # producer id
    "0003"  # epoch
    "0000ea60"  # timeout
    "01"  # Ongoing
    "00000002"  # two topics
    "0001" + "61" + "00000002" + "00000001" + "00000002"  # a: 1, 2
    "0001" + "62" + "00000001" + "00000000"  # b: 0
    "00000000000007d0"  # last change
    "00000000000003e8"  # start
)
COMPACT_BYTES = bytes.fromhex(
    "0001"  # version
    "0000000000000007"
    "0003"
    "0000ea60"
    "01"
    "03"  # two topics
    "02" + "61" + "03" + "00000001" + "00000002" + "00"
    "02" + "62" + "02" + "00000000" + "00"
    "00000000000007d0"
    "00000000000003e8"
    "02"  # two tagged fields
    "00" + "08" + "0000000000000006"  # the producer id before
    "02" + "02" + "0002"  # the version of the protocol
)


def test_a_key_is_a_version_and_the_id() -> None:
    assert transaction_key("orders") == b"\x00\x00\x00\x06orders"
    assert read_transaction_key(b"\x00\x00\x00\x06orders") == "orders"


def test_a_key_of_another_version_is_ignored() -> None:
    assert read_transaction_key(b"\x00\x01\x00\x06orders") is None


def test_an_open_transaction_is_written_as_kafka_does() -> None:
    assert transaction_value(ONGOING) == ONGOING_BYTES


def test_an_open_transaction_is_read_back() -> None:
    assert read_transaction_value("orders", ONGOING_BYTES) == ONGOING


def test_the_compact_form_of_version_1_is_read() -> None:
    assert read_transaction_value("orders", COMPACT_BYTES) == ONGOING._replace(last_producer_id=6, protocol=2)


def test_the_compact_form_is_written_as_kafka_does() -> None:
    assert transaction_value(ONGOING._replace(last_producer_id=6, protocol=2), is_flexible=True) == COMPACT_BYTES


@pytest.mark.parametrize(
    "changes", [{}, {"next_producer_id": 8}, {"state": TransactionState.EMPTY, "partitions": frozenset()}]
)
def test_the_compact_form_is_read_back(changes: dict[str, Any]) -> None:
    stored = ONGOING._replace(**changes)
    assert read_transaction_value("orders", transaction_value(stored, is_flexible=True)) == stored


def test_an_empty_transaction_has_a_null_for_its_partitions() -> None:
    empty = Transaction("orders", 7, 0, 60_000, updated_ms=5)
    value = transaction_value(empty)
    assert value[17:21] == b"\xff\xff\xff\xff"
    assert read_transaction_value("orders", value) == empty


def test_a_null_array_of_version_1_is_read() -> None:
    value = bytes.fromhex("0001000000000000000700000000ea600000") + bytes(16) + b"\x00"
    assert read_transaction_value("orders", value).partitions == frozenset()


@pytest.mark.parametrize("state", [6, 7, 8, 127])
def test_states_that_are_never_stored_are_refused(state: int) -> None:
    damaged = bytearray(ONGOING_BYTES)
    damaged[16] = state
    with pytest.raises(SchemaError, match=f"state {state}"):
        read_transaction_value("orders", bytes(damaged))


@pytest.mark.parametrize("whole", [ONGOING_BYTES, COMPACT_BYTES], ids=["version 0", "version 1"])
def test_a_value_cut_anywhere_is_refused(whole: bytes) -> None:
    for size in range(len(whole)):
        with pytest.raises(SchemaError):
            read_transaction_value("orders", whole[:size])


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(SchemaError, match="unknown version 2"):
        read_transaction_value("orders", b"\x00\x02" + ONGOING_BYTES[2:])
