"""What is appended is counted by topic, in a list that the topic's partitions hold."""

from types import SimpleNamespace
from typing import Any

from tidelog.replication.traffic import TrafficCounters
from tidelog.storage.types import LogAppendInfo
from tidelog.wire.errors import ErrorCode


def appended(records: int, size_bytes: int) -> LogAppendInfo:
    return LogAppendInfo(0, records - 1, -1, -1, 0, records, size_bytes, False)


def partition(topic: str) -> Any:
    return SimpleNamespace(topic=topic, appended=None)


def test_partitions_of_a_topic_share_its_numbers_and_a_deleted_topic_stays_in_the_totals() -> None:
    known = {"orders"}
    traffic = TrafficCounters(known.__contains__, lambda *_: False)
    first, second = partition("orders"), partition("orders")
    traffic.count_append(first, appended(3, 300))
    traffic.count_append(second, appended(1, 100))
    assert first.appended is second.appended
    first.appended[1] += 6
    ((name, counts),) = traffic.topics()
    assert (name, counts.total_produce_requests, counts.messages_in, counts.bytes_in) == ("orders", 2, 10, 400)
    known.clear()
    traffic.forget(["orders"])
    assert list(traffic.topics()) == []
    assert (traffic.total().messages_in, traffic.total().bytes_in) == (10, 400)


def test_a_partition_whose_topic_is_not_known_yet_is_counted_by_name_later() -> None:
    known: set[str] = set()
    traffic = TrafficCounters(known.__contains__, lambda *_: False)
    early = partition("orders")
    traffic.count_append(early, appended(1, 10))
    assert early.appended is None
    known.add("orders")
    traffic.count_append(early, appended(2, 20))
    assert {name: counts.messages_in for name, counts in traffic.topics()} == {"orders": 2}
    assert traffic.total().messages_in == 3


def test_partitions_without_records_and_with_errors_are_requests_too() -> None:
    traffic = TrafficCounters(lambda _: True, lambda *_: False)
    traffic.count_unappended(b"orders", 0, 0)
    traffic.count_unappended(b"orders", ErrorCode.MESSAGE_TOO_LARGE, 77)
    traffic.count_unappended(b"orders", ErrorCode.CORRUPT_MESSAGE, 5)
    ((_, counts),) = traffic.topics()
    assert (counts.total_produce_requests, counts.failed_produce_requests, counts.bytes_rejected) == (3, 2, 77)
    assert traffic.errors == {
        ("Produce", ErrorCode.MESSAGE_TOO_LARGE): 1,
        ("Produce", ErrorCode.CORRUPT_MESSAGE): 1,
    }
