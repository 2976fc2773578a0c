"""Fetching a range: ahead of the decoder, around troubles, past gaps."""

import logging

import pytest

from tests.unit.spark.source.fakes import FakeCluster, FakeLog, lost_connection, task_settings
from tidelog.client.errors import InvalidReply
from tidelog.records.builder import build_batch
from tidelog.records.errors import CorruptRecordError
from tidelog.records.record import Record
from tidelog.spark.source import fetching
from tidelog.spark.source.data_loss import DataLoss, DataLossError
from tidelog.spark.source.fetching import FetchTimeout, RangeFetcher
from tidelog.spark.source.ranges import OffsetRange
from tidelog.wire.errors import ApiError, ErrorCode


def _log(batches=4, records=5):
    log = FakeLog()
    for _ in range(batches):
        log.append(*[b"v%d" % (log.end + index) for index in range(records)])
    return log


def _fetcher(cluster, start, end, settings=None):
    settings = settings or task_settings()
    return RangeFetcher(settings, OffsetRange("t", 0, start, end), cluster, DataLoss(settings.fail_on_data_loss))


def _spans(cluster, start, end, settings=None):
    return [(each.first_offset, each.next_offset) for each in _fetcher(cluster, start, end, settings).chunks()]


def test_a_range_comes_in_one_answer_if_it_fits():
    assert _spans(FakeCluster(t_0=_log()), 0, 20) == [(0, 20)]


def test_batches_behind_the_end_are_left_out():
    fetcher = _fetcher(FakeCluster(t_0=_log()), 0, 7)
    (chunk,) = fetcher.chunks()
    assert chunk.next_offset == 10
    assert not fetcher.is_reply_due, "nothing is asked for beyond the end"


def test_what_follows_is_asked_for_before_an_answer_is_handed_out():
    cluster = FakeCluster(t_0=_log())
    fetcher = _fetcher(cluster, 0, 20, task_settings(fetch_bytes=100))
    chunks = fetcher.chunks()
    next(chunks)
    assert fetcher.is_reply_due
    assert [offset for offset, _ in cluster.fetches] == [0, 5]


def test_no_more_is_asked_for_than_the_settings_allow():
    cluster = FakeCluster(t_0=_log())
    assert _spans(cluster, 0, 20, task_settings(fetch_bytes=100)) == [(0, 5), (5, 10), (10, 15), (15, 20)]
    assert {size for _, size in cluster.fetches} == {100}


def test_the_rest_of_a_range_is_not_asked_for_many_times_over():
    log = FakeLog()
    for _ in range(300):
        log.append(bytes(10_000))
    cluster = FakeCluster(t_0=log)
    assert _spans(cluster, 0, 120)[-1][1] == 120
    first, second = cluster.fetches
    assert first == (0, 1024 * 1024)
    assert second[1] < 400_000


@pytest.mark.parametrize(
    "trouble",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        lost_connection(),
    ],
)
def test_leaders_that_move_and_brokers_that_restart_are_waited_for(trouble):
    cluster = FakeCluster(t_0=_log())
    cluster.troubles = [trouble, trouble]
    assert _spans(cluster, 0, 20) == [(0, 20)]
    assert cluster.forgotten == 2


def test_troubles_between_answers_lose_and_repeat_nothing():
    cluster = FakeCluster(t_0=_log())
    cluster.troubles = [ErrorCode.NONE, lost_connection(), ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert _spans(cluster, 0, 20, task_settings(fetch_bytes=100)) == [(0, 5), (5, 10), (10, 15), (15, 20)]


def test_patience_ends_and_says_what_was_waited_for():
    cluster = FakeCluster(t_0=_log())
    cluster.troubles = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 100
    with pytest.raises(
        FetchTimeout, match=r"no record of t-0 from offset 0 on was received within 50 ms \(kafkaConsumer.poll"
    ):
        _spans(cluster, 0, 20, task_settings(poll_timeout_ms=50))


def test_refusals_that_will_not_pass_are_raised_at_once():
    cluster = FakeCluster(t_0=_log())
    cluster.troubles = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(ApiError, match="t-0"):
        _spans(cluster, 0, 20)
    cluster.troubles = [InvalidReply("not Kafka")]
    with pytest.raises(InvalidReply):
        _spans(cluster, 0, 20)


def test_what_retention_took_is_reported_by_offset():
    log = _log()
    log.start, log.batches = 10, log.batches[2:]
    with pytest.raises(DataLossError, match="8 offsets are lost in t-0: offsets 2 to 9; they were deleted"):
        _spans(FakeCluster(t_0=log), 2, 20)


def test_what_retention_took_can_be_passed_over(caplog):
    log = _log()
    log.start, log.batches = 10, log.batches[2:]
    with caplog.at_level(logging.WARNING):
        assert _spans(FakeCluster(t_0=log), 2, 20, task_settings(fail_on_data_loss=False)) == [(10, 20)]
    assert "offsets 2 to 9" in caplog.text
    assert _spans(FakeCluster(t_0=log), 2, 8, task_settings(fail_on_data_loss=False)) == []


def test_a_log_that_ends_before_the_range_is_truncated():
    with pytest.raises(DataLossError, match="5 offsets are lost in t-0: offsets 30 to 34; the partition now"):
        _spans(FakeCluster(t_0=_log()), 30, 35)
    assert _spans(FakeCluster(t_0=_log()), 30, 35, task_settings(fail_on_data_loss=False)) == []


def test_a_log_that_ends_within_the_range_is_truncated_when_patience_is_over():
    with pytest.raises(DataLossError, match="offsets 20 to 24"):
        _spans(FakeCluster(t_0=_log()), 15, 25, task_settings(poll_timeout_ms=20))


def test_offsets_out_of_range_for_a_moment_are_asked_for_again():
    cluster = FakeCluster(t_0=_log())
    cluster.troubles = [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert _spans(cluster, 0, 20) == [(0, 20)]


def test_a_partition_that_is_unknown_for_a_moment_is_waited_for():
    cluster = FakeCluster(t_0=_log())
    cluster.troubles = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3
    assert _spans(cluster, 0, 20) == [(0, 20)]


def test_a_deleted_partition_is_a_loss(monkeypatch):
    monkeypatch.setattr(fetching, "GONE_S", 0.05)
    cluster = FakeCluster(t_0=_log())
    cluster.troubles = [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 100
    with pytest.raises(DataLossError, match="offsets 0 to 19; the topic or the partition was deleted"):
        _spans(cluster, 0, 20)
    assert _spans(FakeCluster(), 0, 20, task_settings(fail_on_data_loss=False)) == []


def test_gaps_are_no_loss():
    """Compaction and markers leave offsets without records, at the ends of a range and between."""
    log = FakeLog()
    for base in (3, 10):
        log.add(build_batch([Record(base, 0, b"k", b"v")], base_offset=base))
    log.end = 20
    log.add(build_batch([], base_offset=18, last_offset=19))
    assert _spans(FakeCluster(t_0=log), 0, 20) == [(0, 20)]
    assert _spans(FakeCluster(t_0=log), 5, 9) == [(5, 9)]


def test_damaged_batches_are_found_unless_checks_are_off():
    log = FakeLog()
    log.append(b"v")
    log.batches[0] = log.batches[0][:-2] + b"xx"
    with pytest.raises(CorruptRecordError, match="t-0, fetched from offset 0: the batch at offset 0 fails its CRC"):
        _spans(FakeCluster(t_0=log), 0, 1)
    assert _spans(FakeCluster(t_0=log), 0, 1, task_settings(check_crcs=False)) == [(0, 1)]


def test_aborted_transactions_come_with_the_answer():
    log = _log(1)
    log.aborted = [(7, 2)]
    (chunk,) = _fetcher(FakeCluster(t_0=log), 0, 5, task_settings(read_committed=True)).chunks()
    assert chunk.aborted == ((7, 2),)
    (chunk,) = _fetcher(FakeCluster(t_0=log), 0, 5).chunks()
    assert chunk.aborted == ()
