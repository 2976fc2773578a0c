"""When a follower asks, and how much a request of many partitions says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.replication.replicas import TOPIC_ID, Replica
from tidelog.config import LogConfig
from tidelog.replication.fetcher import Fetcher, FetcherSettings
from tidelog.replication.partition import Partition
from tidelog.replication.replica_set import LeaderAndIsr
from tidelog.storage.log import Log
from tidelog.timing import ManualClock
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

SESSION = 5


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Replica]:
    replica = Replica(2, tmp_path, ManualClock())
    yield replica
    replica.log.close()


def names(request: FetchRequest | None) -> list[tuple[str, int]]:
    assert request is not None
    return [(topic.topic, partition.partition) for topic in request.topics for partition in topic.partitions]


def take(fetcher: Fetcher, response: FetchResponse, now_ms: int) -> None:
    for _ in fetcher.on_fetch(response, now_ms):
        pass


def another_topic(replica: Replica, directory: Path) -> Partition:
    log = Log.create(str(directory / "other-0"), "other", 0, LogConfig(), replica.clock.wall_ms())
    partition = replica.manager.add_partition("other", 0, b"o" * 16, log)
    partition.become_follower(LeaderAndIsr(1, 0, (), (1, 2)))
    return partition


def rests(fetcher: Fetcher, fail: Callable[[int], None], count: int) -> list[int]:
    """How long a fetcher rests after each of so many failures in a row."""
    now_ms, found = 0, []
    for _ in range(count):
        assert fetcher.build_fetch(now_ms) is not None
        fail(now_ms)
        assert fetcher.build_fetch(now_ms) is None
        due_ms = fetcher.next_due_ms(now_ms)
        assert due_ms is not None
        found.append(due_ms - now_ms)
        now_ms = due_ms
    return found


def test_a_leader_that_does_not_answer_is_asked_again_after_longer_and_longer(follower: Replica) -> None:
    fetcher = follower.follow_in(0, 1, settings=FetcherSettings(backoff_ms=1000))
    assert rests(fetcher, fetcher.on_fetch_failed, 7) == [50, 100, 200, 400, 800, 1000, 1000]


def test_a_partition_that_is_refused_rests_shortly_at_first(follower: Replica) -> None:
    """A leader that learns of its epoch a moment after its follower can commit nothing while that one rests."""
    fetcher = follower.follow_in(0, 1, settings=FetcherSettings(backoff_ms=1000))
    data = PartitionData(partition_index=0, error_code=ErrorCode.UNKNOWN_LEADER_EPOCH)
    refusal = FetchResponse(
        session_id=SESSION, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])]
    )
    refused = rests(fetcher, lambda now_ms: take(fetcher, refusal, now_ms), 8)
    assert refused == [20, 40, 80, 160, 320, 640, 1000, 1000]


def _opening(request: FetchRequest | None) -> FetchResponse:
    """The answer that opens a session: it has every partition of the request."""
    assert request is not None
    return FetchResponse(
        session_id=SESSION,
        responses=[
            FetchableTopicResponse(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(partition_index=each.partition, high_watermark=0) for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def test_a_request_says_nothing_of_partitions_that_did_not_change(follower: Replica, tmp_path: Path) -> None:
    fetcher = follower.follow_in(0, 1, settings=FetcherSettings())
    request = fetcher.build_fetch(0)
    assert names(request) == [("topic", 0)]
    take(fetcher, _opening(request), 0)
    other = another_topic(follower, tmp_path)
    fetcher.add(other)
    assert names(fetcher.build_fetch(1)) == [("other", 0)]
    take(fetcher, FetchResponse(session_id=SESSION), 1)
    request = fetcher.build_fetch(2)
    assert request is not None, "there is something to wait for"
    assert names(request) == []
    other.log.close()


def test_a_log_start_that_retention_moved_is_sent_within_a_second(follower: Replica) -> None:
    fetcher = follower.follow_in(0, 1, settings=FetcherSettings())
    take(fetcher, _opening(fetcher.build_fetch(0)), 0)
    follower.log.truncate_fully_and_start_at(9, 0)
    request = fetcher.build_fetch(1000)
    assert request is not None
    assert request.topics[0].partitions[0].log_start_offset == 9


def test_partitions_that_are_left_are_forgotten(follower: Replica, tmp_path: Path) -> None:
    fetcher = follower.follow_in(0, 1, settings=FetcherSettings())
    other = another_topic(follower, tmp_path)
    fetcher.add(other)
    take(fetcher, _opening(fetcher.build_fetch(0)), 0)
    fetcher.remove([other.key])
    request = fetcher.build_fetch(1)
    assert request is not None
    assert [topic.topic for topic in request.forgotten_topics_data] == ["other"]
    other.log.close()
