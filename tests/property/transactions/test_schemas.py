"""Records of transactions: what is written is read back, and no bytes do worse than be refused."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.transactions.schemas import (
    SchemaError,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction

int64s = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
stored = st.sampled_from([s for s in TransactionState if s.value not in ("Dead", "PrepareEpochFence")])
partition_sets = st.frozensets(st.tuples(names, st.integers(0, 2**31 - 1)), max_size=8)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    state = draw(stored)
    return Transaction(
        draw(names),
        draw(int64s),
        draw(st.integers(-(2**15), 2**15 - 1)),
        draw(st.integers(-(2**31), 2**31 - 1)),
        state,
        frozenset() if state is TransactionState.EMPTY else draw(partition_sets),
        draw(int64s),
        draw(int64s),
    )


@settings(deadline=None, max_examples=examples(100))
@given(transactions())
def test_a_transaction_is_read_back_as_it_was_written(transaction: Transaction) -> None:
    name = transaction.transactional_id
    assert read_transaction_key(transaction_key(name)) == name
    assert read_transaction_value(name, transaction_value(transaction)) == transaction


@settings(deadline=None, max_examples=examples(100))
@given(st.binary(max_size=80), st.sampled_from([b"", b"\x00\x00", b"\x00\x01"]))
def test_no_bytes_do_worse_than_be_refused(noise: bytes, head: bytes) -> None:
    for read in (lambda data: read_transaction_value("x", data), read_transaction_key):
        with contextlib.suppress(SchemaError):
            read(head + noise)
