"""Kafka's dump tool reads the aborted transactions that we note beside a segment."""

from pathlib import Path

import pytest

from benchmarks.apache_kafka import dump_log_segments
from tests.compat.kafka_tools import dump_output
from tidelog.storage.segment.transaction_index import AbortedTransaction, TransactionIndex

pytestmark = pytest.mark.java


def test_aborted_transactions_are_read_entry_by_entry(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.txnindex"
    index = TransactionIndex(str(path), 100, is_new=True)
    index.append(AbortedTransaction(producer_id=7, first_offset=100, last_offset=110, last_stable_offset=105))
    index.append(AbortedTransaction(producer_id=8, first_offset=105, last_offset=120, last_stable_offset=111))

    (file,) = dump_output.parse(dump_log_segments([path]))

    assert [
        (row["producerId"], row["firstOffset"], row["lastOffset"], row["lastStableOffset"]) for row in file.rows
    ] == [
        ("7", "100", "110", "105"),
        ("8", "105", "120", "111"),
    ]
