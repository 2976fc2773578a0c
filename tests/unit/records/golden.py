"""Bytes that Apache Kafka 3.9.1 wrote, in `golden.json`: RECORDS in every magic and codec that go together.

Made with the `build` command of `tests/compat/records/RecordsOracle.java`, which calls Kafka's MemoryRecordsBuilder;
the message sets of magic 0 and 1 hold the records without their headers. "log append time" is 1700000000000.
"""

import json
from pathlib import Path

from tidelog.records.record import Record

LOG_APPEND_TIME = 1_700_000_000_000

RECORDS = [
    Record(41, 1_600_000_000_000, b"key", b"value", (("first", b"1"), ("none", None), ("Grüße", b""))),
    Record(42, 1_600_000_000_005, None, b"no key"),
    Record(43, 1_599_999_999_000, b"tombstone", None),
    Record(44, 1_600_000_100_000, b"", b"again and again " * 20),
]

GOLDEN: dict[str, bytes] = {
    name: bytes.fromhex(text)
    for name, text in json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8")).items()
}
