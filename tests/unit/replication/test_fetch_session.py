"""Incremental fetch sessions (KIP-227): what a request means, what an answer may leave out, who is evicted."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.replication.fetch_session import EVICTION_MS_MIN, FetchSessionCache
from tidelog.wire.errors import ErrorCode
from tidelog.wire.fetch import FetchPartition, FetchSpans, PartitionReply, TopicKey

TOPIC_ID = bytes(range(16))


def request(
    session_id: int = 0,
    epoch: int = -1,
    partitions: Sequence[int] = (),
    forgotten: Sequence[int] = (),
    topic: TopicKey = "orders",
    replica_id: int = -1,
    offset: int = 0,
) -> FetchSpans:
    topics = [(topic, [FetchPartition(index, offset, 1000) for index in partitions])] if partitions else []
    gone = [(topic, list(forgotten))] if forgotten else []
    return FetchSpans(replica_id, 500, 1, 10_000, 0, session_id, epoch, topics, gone, "")


class Sessions:
    """A cache with predictable ids and a name for one topic id."""

    def __init__(self, slots: int = 10) -> None:
        self._next_id = 0
        self.now_ms = 0
        self.names = {TOPIC_ID: "orders"}
        self.cache = FetchSessionCache(slots, self._new_id)

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def open(self, spans: FetchSpans, uses_topic_ids: bool = False):  # type: ignore[no-untyped-def]
        return self.cache.open(spans, uses_topic_ids, self.names.get, self.now_ms)


def reply(index: int, high_watermark: int = 0, records: bytes | None = None, error: int = 0) -> PartitionReply:
    return PartitionReply(index, error, high_watermark, high_watermark, 0, records=records)


def test_a_full_fetch_without_a_session_leaves_nothing_behind() -> None:
    sessions = Sessions()
    context = sessions.open(request(0, -1, [0, 1]))
    assert [entry.fetch.partition_index for entry in context.wanted] == [0, 1]
    assert context.session_id == 0
    assert len(sessions.cache) == 0


def test_epoch_zero_asks_for_a_session_and_the_first_answer_holds_every_partition() -> None:
    sessions = Sessions()
    context = sessions.open(request(0, 0, [0, 1]))
    assert context.session_id == 1
    (topic,) = context.select([reply(0), reply(1)])
    assert [r.partition_index for r in topic[1]] == [0, 1]


def test_an_incremental_answer_leaves_out_what_has_not_changed() -> None:
    sessions = Sessions()
    sessions.open(request(0, 0, [0, 1])).select([reply(0, 5), reply(1, 7)])
    context = sessions.open(request(1, 1))
    assert [entry.fetch.partition_index for entry in context.wanted] == [0, 1]
    assert context.select([reply(0, 5), reply(1, 7)]) == []
    context = sessions.open(request(1, 2))
    ((_, replies),) = context.select([reply(0, 6), reply(1, 7)])
    assert [r.partition_index for r in replies] == [0]


def test_records_errors_and_a_new_start_offset_are_news() -> None:
    sessions = Sessions()
    sessions.open(request(0, 0, [0, 1, 2])).select([reply(0), reply(1), reply(2)])
    context = sessions.open(request(1, 1))
    changed = [reply(0, records=b"x"), reply(1, error=3), reply(2)._replace(log_start_offset=4)]
    ((_, replies),) = context.select(changed)
    assert [r.partition_index for r in replies] == [0, 1, 2]


def test_an_error_is_sent_again_until_it_is_gone_and_so_is_its_end() -> None:
    sessions = Sessions()
    sessions.open(request(0, 0, [0])).select([reply(0, 5)])
    assert sessions.open(request(1, 1)).select([reply(0, -1, error=6)])
    assert sessions.open(request(1, 2)).select([reply(0, -1, error=6)])
    assert sessions.open(request(1, 3)).select([reply(0, 5)])
    assert not sessions.open(request(1, 4)).select([reply(0, 5)])


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions = Sessions()
    sessions.open(request(0, 0, [0, 1]))
    context = sessions.open(request(1, 1, [2], forgotten=[0]))
    assert [entry.fetch.partition_index for entry in context.wanted] == [1, 2]
    context = sessions.open(request(1, 2, [1], offset=9))
    assert {entry.fetch.partition_index: entry.fetch.fetch_offset for entry in context.wanted} == {1: 9, 2: 0}


def test_partitions_that_had_data_go_last_next_time() -> None:
    sessions = Sessions()
    sessions.open(request(0, 0, [0, 1, 2])).select([reply(0), reply(1), reply(2)])
    sessions.open(request(1, 1)).select([reply(0, records=b"x"), reply(1), reply(2)])
    context = sessions.open(request(1, 2))
    assert [entry.fetch.partition_index for entry in context.wanted] == [1, 2, 0]


def test_a_session_that_forgets_everything_ends() -> None:
    sessions = Sessions()
    sessions.open(request(0, 0, [0]))
    assert sessions.open(request(1, 1, forgotten=[0])).wanted == []
    assert len(sessions.cache) == 0


def test_wrong_ids_and_epochs_are_refused() -> None:
    sessions = Sessions()
    sessions.open(request(0, 0, [0]))
    assert sessions.open(request(99, 1)).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.open(request(1, 5)).error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.open(request(1, 1), uses_topic_ids=True).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_is_given_up_by_the_final_or_the_initial_epoch() -> None:
    sessions = Sessions()
    sessions.open(request(0, 0, [0]))
    sessions.open(request(1, -1, [0]))
    assert len(sessions.cache) == 0
    sessions.open(request(0, 0, [0]))
    assert sessions.open(request(2, 0, [0])).session_id == 3
    assert len(sessions.cache) == 1


def test_a_topic_id_is_looked_up_again_until_it_is_known() -> None:
    sessions = Sessions()
    other = bytes(15) + b"\x07"
    context = sessions.open(request(0, 0, [0], topic=other), uses_topic_ids=True)
    assert context.wanted[0].error == ErrorCode.UNKNOWN_TOPIC_ID
    sessions.names[other] = "payments"
    context = sessions.open(request(1, 1), uses_topic_ids=True)
    assert context.wanted[0].topic == "payments"


def test_a_full_cache_evicts_the_old_then_the_smaller_and_else_none() -> None:
    sessions = Sessions(slots=1)
    sessions.open(request(0, 0, [0, 1]))
    assert sessions.open(request(0, 0, [0])).session_id == 0
    assert sessions.open(request(0, 0, [0, 1, 2])).session_id == 2
    sessions.now_ms = EVICTION_MS_MIN + 1
    assert sessions.open(request(0, 0, [0])).session_id == 3


def test_followers_are_worth_more_than_consumers() -> None:
    sessions = Sessions(slots=1)
    sessions.open(request(0, 0, [0, 1, 2]))
    assert sessions.open(request(0, 0, [0], replica_id=3)).session_id == 2
    assert sessions.open(request(0, 0, [0, 1, 2, 3])).session_id == 0
