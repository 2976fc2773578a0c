"""Spark's own connector and ours on the same topics: equal rows, equal splits, equal offsets.

Each topic is also read by a third client, so that the two cannot be wrong together.
"""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.compat.spark_connector.conftest import MakeTopic
from tests.compat.spark_connector.connectors import Connector, Row
from tests.compat.spark_connector.topics import (
    CODECS,
    EPOCH_MS,
    Sent,
    Transactions,
    consumed,
    delete_records,
    numbered,
    produce,
    wait_until_compacted,
)

COMMITTED = {"kafka.isolation.level": "read_committed"}


def assert_equal(official: Connector, ours: Connector, options: Mapping[str, object]) -> list[Row]:
    """Both read the same rows by these options; returns them."""
    theirs = official.read(options)
    assert ours.read(options) == theirs
    return theirs


@pytest.fixture(scope="module")
def transactional(servers: str, make_topic: MakeTopic) -> str:
    """Committed, aborted and plain records between one another in two partitions; a transaction without an end last."""
    topic = make_topic("transactional", 2)
    transactions = Transactions(servers, topic)
    transactions.committed(numbered(7, 2))
    transactions.aborted(numbered(9, 2, start=100))
    produce(servers, topic, numbered(5, 2, start=200))
    transactions.aborted(numbered(1, start=300))
    transactions.committed(numbered(40, 2, start=400))
    transactions.left_open(numbered(3, start=500))
    produce(servers, topic, numbered(4, 2, start=600))
    _open_transactions.append(transactions)
    return topic


_open_transactions: list[Transactions] = []
"""Kept: a producer that goes away takes its transaction with it."""


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_rows_of_transactions(
    official: Connector, ours: Connector, servers: str, transactional: str, isolation: str
) -> None:
    """Under read_committed nothing of an aborted transaction, and nothing behind one that is open."""
    options = {"subscribe": transactional, "includeHeaders": "true", "kafka.isolation.level": isolation}
    rows = assert_equal(official, ours, options)
    assert rows == consumed(servers, transactional, 2, isolation)
    assert len(rows) == (7 + 5 + 40 + 2 if isolation == "read_committed" else 7 + 9 + 5 + 1 + 40 + 3 + 4)


def test_offsets_of_streams_over_transactions(
    official: Connector, ours: Connector, transactional: str, tmp_path: Path
) -> None:
    """Markers and aborted records count against a limit in offsets; the checkpoints hold the same offsets."""
    options = {"subscribe": transactional, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 20, **COMMITTED}
    theirs = official.stream(options, tmp_path / "theirs")
    mine = ours.stream(options, tmp_path / "ours")
    assert mine.rows == theirs.rows
    assert mine.sizes == theirs.sizes
    assert mine.checkpoint == theirs.checkpoint
    assert mine.progress == theirs.progress


def test_rows_of_a_compacted_topic(official: Connector, ours: Connector, servers: str, make_topic: MakeTopic) -> None:
    """Offsets have gaps, whole batches are gone, and the last offset before the end may be missing too."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.001, "segment.bytes": 2000}
    topic = make_topic("compacted", 1, **settings)
    sent = [Sent(b"%060d" % number, b"key %d" % (number % 7 if number % 50 else number)) for number in range(400)]
    produce(servers, topic, sent, linger_ms=1, batch_num_messages=10)
    wait_until_compacted(servers, topic, rows_max=100)
    before: list[Row] = []
    # The cleaner may still be at work between two reads.
    while before != (before := consumed(servers, topic, 1)):
        theirs, mine = (connector.read({"subscribe": topic}) for connector in (official, ours))
    assert mine == theirs == before
    middle = {"startingOffsets": {topic: {"0": 120}}, "endingOffsets": {topic: {"0": 333}}}
    assert_equal(official, ours, {"subscribe": topic, **middle})


def test_rows_of_all_codecs(official: Connector, ours: Connector, servers: str, make_topic: MakeTopic) -> None:
    """With keys, values and headers of all sizes, missing and empty ones too."""
    topic, shapes = make_topic("codecs", 2), random.Random(7)
    for codec in CODECS:
        produce(servers, topic, [_any_record(shapes) for _ in range(300)], compression_type=codec)
    rows = assert_equal(official, ours, {"subscribe": topic, "includeHeaders": "true", "minPartitions": 5})
    assert rows == consumed(servers, topic, 2)
    assert len(rows) == 300 * len(CODECS)


def _any_record(shapes: random.Random) -> Sent:
    def content() -> bytes | None:
        return shapes.choice((None, b"", shapes.randbytes(shapes.randrange(1, 300)), b"x" * shapes.randrange(1, 3000)))

    headers = tuple((shapes.choice("abc"), content()) for _ in range(shapes.randrange(4)))
    return Sent(content(), content(), shapes.randrange(2), EPOCH_MS + shapes.randrange(10**6), headers)


def test_rows_with_the_time_of_the_broker(
    official: Connector, ours: Connector, servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic("append-time", 1, **{"message.timestamp.type": "LogAppendTime"})
    produce(servers, topic, numbered(20))
    rows = assert_equal(official, ours, {"subscribe": topic})
    assert {row.timestamp_type for row in rows} == {1}
    assert all(row.timestamp_us > EPOCH_MS * 1000 + 10**12 for row in rows)


def test_rows_of_a_log_with_a_deleted_beginning(
    official: Connector, ours: Connector, servers: str, make_topic: MakeTopic
) -> None:
    topic = make_topic("deleted", 2)
    produce(servers, topic, numbered(40, 2))
    delete_records(servers, topic, 0, 13)
    delete_records(servers, topic, 1, 20)
    assert len(assert_equal(official, ours, {"subscribe": topic})) == 7
    lost = {"startingOffsets": {topic: {"0": 3, "1": 4}}, "failOnDataLoss": "false"}
    assert len(assert_equal(official, ours, {"subscribe": topic, **lost})) == 7


@pytest.fixture(scope="module")
def uneven(servers: str, make_topic: MakeTopic) -> str:
    """Partitions with 100, 37, 3, 1 and no records."""
    topic = make_topic("uneven", 5)
    sizes = (100, 37, 3, 1, 0)
    produce(servers, topic, [Sent(b"x", partition=index) for index, size in enumerate(sizes) for _ in range(size)])
    return topic


@pytest.mark.parametrize(
    "options",
    [
        {"minPartitions": 11},
        {"maxRecordsPerPartition": 9},
        {"maxRecordsPerPartition": 60, "minPartitions": 11},
    ],
    ids=str,
)
def test_splits_of_uneven_partitions(
    official: Connector, ours: Connector, uneven: str, options: dict[str, object]
) -> None:
    """Equal numbers of rows in equally many tasks."""
    ends = {str(index): size for index, size in enumerate((100, 37, 3, 1, 0))}
    bounds = {"startingOffsets": {uneven: dict.fromkeys("01234", 0)}, "endingOffsets": {uneven: ends}}
    assert ours.tasks({"subscribe": uneven, **bounds, **options}) == official.tasks(
        {"subscribe": uneven, **bounds, **options}
    )


def test_admission_over_uneven_partitions(official: Connector, ours: Connector, uneven: str, tmp_path: Path) -> None:
    """Each micro-batch takes the same offsets of the same partitions."""
    options = {"subscribe": uneven, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 40}
    theirs = official.stream(options, tmp_path / "theirs")
    mine = ours.stream(options, tmp_path / "ours")
    assert mine.checkpoint == theirs.checkpoint
    assert mine.sizes == theirs.sizes
