"""The load generator's own parts: frames with one moving field, replies read in place, percentiles."""

import pytest

from tidelog.cli._options import Format
from tidelog.cli.perf import consume, produce
from tidelog.cli.perf._figures import Figures, Latencies, report, summarize
from tidelog.cli.perf._wire import check_error
from tidelog.cli.produce import Compression
from tidelog.records.batch import iterate_records
from tidelog.records.builder import build_batch
from tidelog.records.header import read_header
from tidelog.records.record import Record
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.frames import encode_response, parse_request_header
from tidelog.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)


def test_the_produce_frame_is_a_produce_request():
    batch = produce.build_load_batch(7, 100, Compression.NONE)
    assert [len(record.value or b"") for record in iterate_records(batch)] == [100] * 7
    frame = produce.build_frame("tøpic", 3, 1, batch)
    header = parse_request_header(frame, 4)
    request = ProduceRequest.decode(frame, header.api_version, header.body_offset)
    assert (request.acks, request.topic_data[0].name) == (1, "tøpic")
    assert request.topic_data[0].partition_data[0].records == batch


def test_the_error_of_a_produce_reply_is_found_in_place():
    topic = "tøpic"
    position = 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    for error in (ErrorCode.NONE, ErrorCode.MESSAGE_TOO_LARGE):
        partition = PartitionProduceResponse(index=3, error_code=error, base_offset=9)
        answer = ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[partition])])
        reply = memoryview(encode_response(0, 7, 1, answer.encode(7)))[4:]
        if error:
            with pytest.raises(ApiError, match="the batch failed"):
                check_error(reply, position, "the batch")
        else:
            check_error(reply, position, "the batch")


def test_the_fetch_frame_is_a_fetch_request_whose_offset_moves():
    load = consume.build_load("tøpic", 3, 1000)
    load.frame[load.offset_position : load.offset_position + 8] = (12345).to_bytes(8, "big")
    header = parse_request_header(load.frame, 4)
    request = FetchRequest.decode(load.frame, header.api_version, header.body_offset)
    (wanted,) = request.topics[0].partitions
    assert (wanted.partition, wanted.fetch_offset, wanted.partition_max_bytes) == (3, 12345, 1000)


@pytest.mark.parametrize("aborted", [None, [], [AbortedTransaction(producer_id=1, first_offset=2)]])
def test_batches_of_a_fetch_reply_are_counted_by_their_headers(aborted):
    first = build_batch([Record(10 + n, 1, None, b"x") for n in range(5)], base_offset=10)
    second = build_batch([Record(15, 1, None, b"y")], base_offset=15)
    data = PartitionData(partition_index=3, aborted_transactions=aborted, records=first + second + first[:30])
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="tøpic", partitions=[data])])
    reply = memoryview(encode_response(1, 4, 1, answer.encode(4)))[4:]
    load = consume.build_load("tøpic", 3, 1000)
    assert consume.count_batches(reply, load.error_position) == (6, 16, len(first) + len(second))


def test_an_empty_fetch_reply_counts_as_nothing():
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(records=None)])])
    reply = memoryview(encode_response(1, 4, 1, answer.encode(4)))[4:]
    assert consume.count_batches(reply, consume.build_load("t", 0, 1).error_position) == (0, -1, 0)


def test_percentiles_are_values_that_were_measured():
    milliseconds = [n * 1_000_000 for n in range(1, 1001)]
    assert summarize(milliseconds[::-1]) == Latencies(500, 990, 999, 1000)
    assert summarize([2_500_000]) == Latencies(2.5, 2.5, 2.5, 2.5)


def test_compressed_load_compresses_to_about_half():
    plain = len(produce.build_load_batch(1, 10_000, Compression.NONE))
    packed = len(produce.build_load_batch(1, 10_000, Compression.ZSTD))
    assert 0.4 < packed / plain < 0.7
    assert read_header(produce.build_load_batch(3, 10, Compression.LZ4)).record_count == 3


def test_figures_are_printed_in_words(capsys):
    report(Figures(1_000_000, 100_000_000, 2.0, Latencies(0.5, 1, 2, 3)), "a batch", Format.TEXT)
    assert capsys.readouterr().out == (
        "1,000,000 records, 100.0 MB in 2.00 s: 500,000 records/s, 50.0 MB/s\n"
        "latency of a batch, ms: p50 0.50  p99 1.00  p99.9 2.00  max 3.00\n"
    )
