"""What the reader asks for, skips and yields."""

import pytest

from tests.integration.client.scripted_broker import ScriptedBroker
from tidelog.client.cluster import ClusterClient
from tidelog.client.errors import ApiError
from tidelog.client.reader import RecordReader
from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.record import Record
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import FetchRequest, FetchResponse, MetadataRequest
from tidelog.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, PartitionData


def batch(first, count, **options):
    records = [Record(first + number, 1000, None, b"%d" % (first + number)) for number in range(count)]
    return build_batch(records, base_offset=first, **options)


def marker(offset, producer_id, *, is_commit):
    return build_end_transaction_marker(
        is_commit=is_commit,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=1,
        base_offset=offset,
    )


class Log:
    """Serves scripted bytes for each offset asked; errors first, if any."""

    def __init__(self, replies, *errors, aborted=()):
        self.replies = replies
        self.errors = list(errors)
        self.aborted = [AbortedTransaction(producer_id=pid, first_offset=first) for pid, first in aborted]
        self.broker = ScriptedBroker(
            {MetadataRequest: lambda request: self.broker.metadata("t", 1), FetchRequest: self.fetch}
        )

    def fetch(self, request):
        (topic,) = request.topics
        (wanted,) = topic.partitions
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        data = PartitionData(
            partition_index=wanted.partition,
            error_code=error,
            high_watermark=99,
            aborted_transactions=self.aborted,
            records=self.replies.get(wanted.fetch_offset, b""),
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[data])])


def read(log, start, end, **options):
    with log.broker as broker, ClusterClient(broker.address) as cluster:
        reader = RecordReader(cluster, "t", {0: start}, **options)
        return [fetched.record.offset for fetched in reader.read_until({0: end}, wait_ms=0)], reader


def test_batches_are_read_one_fetch_after_another():
    log = Log({0: batch(0, 3) + batch(3, 2), 5: batch(5, 1)})
    offsets, reader = read(log, 0, 6)
    assert offsets == [0, 1, 2, 3, 4, 5]
    assert reader.positions == {0: 6}
    assert reader.high_watermarks == {0: 99}
    assert [version for version, request in log.broker.seen if isinstance(request, FetchRequest)] == [12, 12]


def test_records_before_the_offset_asked_for_are_skipped():
    """A fetch inside a batch brings the whole batch."""
    assert read(Log({4: batch(0, 3) + batch(3, 4)}), 4, 7)[0] == [4, 5, 6]


def test_a_batch_cut_off_at_the_end_is_fetched_again():
    whole = batch(2, 2)
    assert read(Log({0: batch(0, 2) + whole[:-5], 2: whole}), 0, 4)[0] == [0, 1, 2, 3]


def test_offsets_that_compaction_removed_are_passed_over():
    kept = build_batch([Record(0, 1, None, b""), Record(7, 1, None, b"")], base_offset=0)
    offsets, reader = read(Log({0: kept}), 0, 8)
    assert offsets == [0, 7]
    assert reader.positions == {0: 8}


def test_markers_are_never_yielded_and_aborted_records_not_to_readers_of_committed():
    options = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    data = (
        batch(0, 1, producer_id=5, **options)
        + batch(1, 1, producer_id=6, **options)
        + marker(2, 5, is_commit=False)
        + batch(3, 1, producer_id=5, **options)
        + marker(4, 6, is_commit=True)
        + batch(5, 1)
    )
    assert read(Log({0: data}, aborted=[(5, 0)]), 0, 6, read_committed=True)[0] == [1, 3, 5]
    assert read(Log({0: data}), 0, 6)[0] == [0, 1, 3, 5]


def test_a_moving_leader_is_waited_out():
    log = Log({0: batch(0, 1)}, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert read(log, 0, 1)[0] == [0]


def test_an_offset_that_is_not_there_is_named():
    log = Log({}, ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(ApiError, match="t-0: there is no offset 77; `tidelog offsets t`"):
        read(log, 77, 78)


def test_reading_stops_quietly_when_nothing_comes():
    log = Log({0: batch(0, 2)})
    with log.broker as broker, ClusterClient(broker.address) as cluster:
        reader = RecordReader(cluster, "t", {0: 0})
        assert len(list(reader.read_until({0: 5}, wait_ms=0, idle_s=0.0))) == 2
