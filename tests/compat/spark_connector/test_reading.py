"""Batch queries: which rows the options ask for, and that they come."""

import json

import pytest

from tests.compat.spark_connector.conftest import MakeTopic
from tests.compat.spark_connector.connectors import Connector, Row
from tests.compat.spark_connector.topics import EPOCH_MS, Sent, delete_records, expected_rows, numbered, produce

PARTITIONS = 3
COUNT = 30


@pytest.fixture(scope="module")
def topic(servers: str, make_topic: MakeTopic) -> str:
    """Thirty records in three partitions, a second apart."""
    name = make_topic("numbers", PARTITIONS)
    produce(servers, name, numbered(COUNT, PARTITIONS))
    return name


@pytest.fixture(scope="module")
def rows(topic: str) -> list[Row]:
    return expected_rows(topic, numbered(COUNT, PARTITIONS))


def test_everything_is_read_by_default(connector: Connector, topic: str, rows: list[Row]) -> None:
    assert connector.read({"subscribe": topic}) == rows


def test_offsets_of_each_partition_bound_the_rows(connector: Connector, topic: str, rows: list[Row]) -> None:
    """-2 is the beginning and -1 the end of a partition."""
    starts = {topic: {"0": 3, "1": -2, "2": 10}}
    ends = {topic: {"0": 8, "1": 2, "2": -1}}
    read = connector.read({"subscribe": topic, "startingOffsets": starts, "endingOffsets": ends})
    wanted = {0: range(3, 8), 1: range(2), 2: range(10, 10)}
    assert read == [row for row in rows if row.offset in wanted[row.partition]]


def test_times_bound_the_rows(connector: Connector, topic: str, rows: list[Row]) -> None:
    """The first record at or after the starting time is in, the first at or after the ending time is out."""
    options = {"startingTimestamp": EPOCH_MS + 9_500, "endingTimestamp": EPOCH_MS + 21_000}
    read = connector.read({"subscribe": topic, **options})
    assert read == [row for row in rows if 10_000 <= row.timestamp_us // 1000 - EPOCH_MS < 21_000]


def test_each_partition_may_have_times_of_its_own(connector: Connector, topic: str, rows: list[Row]) -> None:
    starts = {str(partition): EPOCH_MS + 1000 * (5 + partition) for partition in range(PARTITIONS)}
    ends = {str(partition): EPOCH_MS + 10**9 for partition in range(PARTITIONS)}
    options = {"startingOffsetsByTimestamp": {topic: starts}, "endingOffsetsByTimestamp": {topic: ends}}
    read = connector.read({"subscribe": topic, **options})
    assert read == [row for row in rows if row.timestamp_us // 1000 >= starts[str(row.partition)]]


def test_a_time_after_the_last_record_is_an_error_by_default(connector: Connector, topic: str) -> None:
    options = {"subscribe": topic, "startingTimestamp": EPOCH_MS + 10**9}
    with pytest.raises(Exception, match=topic):
        connector.read(options)
    assert connector.read({**options, "startingOffsetsByTimestampStrategy": "latest"}) == []


def test_partitions_can_be_assigned(connector: Connector, topic: str, rows: list[Row]) -> None:
    assert connector.read({"assign": {topic: [0, 2]}}) == [row for row in rows if row.partition != 1]


def test_a_pattern_finds_its_topics(connector: Connector, servers: str, make_topic: MakeTopic) -> None:
    """It may match a part of the name; anchors make it match the whole."""
    names = [make_topic(f"{word}-of-{connector.name}") for word in ("ab1x", "ab22x", "zab3x", "ab1")]
    for name in names:
        produce(servers, name, [Sent(name.encode())])
    found = {
        pattern: _topics(connector, pattern)
        for pattern in (rf"ab\d+x-of-{connector.name}", rf"^ab\d+x-of-{connector.name}")
    }
    assert list(found.values()) == [names[:3], names[:2]]


def _topics(connector: Connector, pattern: str) -> list[str]:
    return [row.topic for row in connector.read({"subscribePattern": pattern})]


def test_headers_come_when_asked_for(connector: Connector, servers: str, make_topic: MakeTopic) -> None:
    """Names may repeat, values may be missing or empty; a record without headers has null, not an empty array."""
    headers = (("a", b"1"), ("a", b"2"), ("nothing", None), ("empty", b""), ("héllo", b"\xff\x00"))
    sent = [Sent(b"with", b"key", headers=headers), Sent(b"without"), Sent(None, b"tombstone"), Sent(b"", b"")]
    topic = make_topic("headers")
    produce(servers, topic, sent)
    assert connector.read({"subscribe": topic, "includeHeaders": "true"}) == expected_rows(topic, sent)
    assert "headers" not in connector.frame({"subscribe": topic}).columns


def test_a_log_that_begins_late_is_read_from_there(connector: Connector, servers: str, make_topic: MakeTopic) -> None:
    """Earliest is where the log begins; an offset before that is data loss, raised or ignored."""
    topic = make_topic("begins-late")
    produce(servers, topic, numbered(10))
    delete_records(servers, topic, 0, 4)
    rows = expected_rows(topic, numbered(10))[4:]
    assert connector.read({"subscribe": topic}) == rows
    lost = {"subscribe": topic, "startingOffsets": {topic: {"0": 1}}}
    with pytest.raises(Exception, match=r"(?i)offset"):
        connector.read(lost)
    assert connector.read({**lost, "failOnDataLoss": "false"}) == rows


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [10, 10, 10]),
        ({"minPartitions": 6}, [5] * 6),
        ({"maxRecordsPerPartition": 4}, [4, 4, 4, 3, 3, 3, 3, 3, 3]),
    ],
    ids=json.dumps,
)
def test_partitions_are_split_for_more_tasks(
    connector: Connector, topic: str, options: dict[str, int], sizes: list[int]
) -> None:
    """With offsets in numbers: for `earliest` and `latest` Spark's own connector does not heed the last of these."""
    bounds = {name: {topic: dict.fromkeys("012", end)} for name, end in (("startingOffsets", 0), ("endingOffsets", 10))}
    assert connector.tasks({"subscribe": topic, **bounds, **options}) == sizes
