"""The hot codecs of Produce and Fetch say the same as the declared messages, in every version."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.wire.in_c import Edit, c_and_python_agree, edits, needs_c, read_in_c, read_in_python
from tidelog.wire import fetch as hot_fetch
from tidelog.wire import produce as hot_produce
from tidelog.wire.errors import WireError
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

PRODUCE_VERSIONS = range(ProduceRequest.versions[1] + 1)
names = st.text(min_size=0, max_size=140)
topic_ids = st.binary(min_size=16, max_size=16)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
lists_of = lambda element, most=3: st.lists(element, max_size=most)  # noqa: E731

produce_requests = st.builds(
    ProduceRequest,
    transactional_id=st.none() | names,
    acks=int16s,
    timeout_ms=int32s,
    topic_data=lists_of(
        st.builds(
            TopicProduceData,
            name=names,
            topic_id=topic_ids,
            partition_data=lists_of(
                st.builds(PartitionProduceData, index=int32s, records=st.none() | st.binary(max_size=200))
            ),
        )
    ),
)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(request=produce_requests, before=st.binary(max_size=9), after=st.binary(max_size=9))
@settings(max_examples=examples(12), deadline=None)
def test_a_produce_request_is_read_as_its_message_says(
    version: int, request: ProduceRequest, before: bytes, after: bytes
) -> None:
    body = request.encode(version)
    data = bytearray(before + body + after)
    spans = hot_produce.decode_request(data, len(before), len(before) + len(body), version)
    assert spans.transactional_id == (request.transactional_id if version >= 3 else None)
    assert (spans.acks, spans.timeout_ms) == (request.acks, request.timeout_ms)
    found = [
        (topic, index, None if start < 0 else bytes(data[start:stop])) for topic, index, start, stop in spans.partitions
    ]
    assert found == [
        (_key(topic, version), p.index, None if p.records is None else bytes(p.records))
        for topic in request.topic_data
        for p in topic.partition_data
    ]


def _key(topic: TopicProduceData | TopicProduceResponse, version: int) -> bytes:
    return topic.topic_id if version >= hot_produce.TOPIC_IDS_FROM else topic.name.encode()


usual_produce_requests = st.builds(
    ProduceRequest,
    transactional_id=st.none() | names,
    acks=int16s,
    timeout_ms=int32s,
    topic_data=st.tuples(
        st.builds(
            TopicProduceData,
            name=st.text("abc-_.", min_size=1, max_size=250) | names,
            topic_id=topic_ids,
            partition_data=st.tuples(
                st.builds(PartitionProduceData, index=int32s, records=st.none() | st.binary(max_size=200))
            ),
        )
    ),
)


@needs_c
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(
    request=usual_produce_requests | produce_requests,
    before=st.binary(max_size=3),
    after=st.binary(max_size=9),
    cut=st.sampled_from([0, 0, 0, 1, 2, 3, 20]),
    changes=edits,
)
@settings(max_examples=examples(80), deadline=None)
def test_the_c_decoder_reads_a_produce_as_the_python_one_or_leaves_it_to_it(
    version: int, request: ProduceRequest, before: bytes, after: bytes, cut: int, changes: list[Edit]
) -> None:
    c_and_python_agree(hot_produce._DECODER, request.encode(version), version, before, after, cut, changes)


@needs_c
@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "", "id"])
def test_the_c_decoder_reads_the_usual_produce(version: int, transactional_id: str | None) -> None:
    partition = PartitionProduceData(index=1, records=bytes(300))
    topics = [TopicProduceData(name="topic", partition_data=[partition])]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=5, topic_data=topics)
    data = bytearray(request.encode(version))
    found = read_in_c(hot_produce._DECODER, data, 0, len(data), version)
    assert type(found) is hot_produce.ProduceSpans
    assert found == read_in_python(hot_produce._DECODER, data, 0, len(data), version)


produce_replies = st.builds(
    hot_produce.PartitionReply,
    partition_index=int32s,
    error_code=int16s,
    base_offset=int64s,
    log_append_time_ms=int64s,
    log_start_offset=int64s,
    record_errors=lists_of(st.tuples(int32s, st.none() | names)),
    error_message=st.none() | names,
    current_leader=st.none() | st.tuples(int32s, int32s),
)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(
    topics=lists_of(st.tuples(names.map(str.encode), topic_ids, lists_of(produce_replies))),
    correlation_id=int32s,
    throttle_ms=st.integers(0, 99),
)
@settings(max_examples=examples(12), deadline=None)
def test_a_produce_response_is_written_as_its_message_says(
    version: int,
    topics: list[tuple[bytes, bytes, list[hot_produce.PartitionReply]]],
    correlation_id: int,
    throttle_ms: int,
) -> None:
    has_ids = version >= hot_produce.TOPIC_IDS_FROM
    replies_of = [(topic_id if has_ids else name, replies) for name, topic_id, replies in topics]
    frame = hot_produce.encode_response(correlation_id, version, replies_of, throttle_ms)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert int.from_bytes(frame[4:8], "big", signed=True) == correlation_id
    body = frame[8 + (version >= 9) :]
    response = ProduceResponse.decode(body, version)
    assert response.encode(version) == body
    assert [
        (_key(t, version), [(p.index, p.error_code, p.base_offset) for p in t.partition_responses])
        for t in response.responses
    ] == [(name, [(r.partition_index, r.error_code, r.base_offset) for r in replies]) for name, replies in replies_of]
    if version >= 1:
        assert response.throttle_time_ms == throttle_ms
    for (_, replies), topic in zip(replies_of, response.responses, strict=True):
        for reply, partition in zip(replies, topic.partition_responses, strict=True):
            _same_details(version, reply, partition)


def _same_details(version: int, reply: hot_produce.PartitionReply, partition: PartitionProduceResponse) -> None:
    if version >= 2:
        assert partition.log_append_time_ms == reply.log_append_time_ms
    if version >= 5:
        assert partition.log_start_offset == reply.log_start_offset
    if version >= 8:
        assert [(e.batch_index, e.batch_index_error_message) for e in partition.record_errors] == list(
            reply.record_errors
        )
        assert partition.error_message == reply.error_message
    if version >= 10 and reply.current_leader is not None:
        leader = partition.current_leader
        assert (leader.leader_id, leader.leader_epoch) == reply.current_leader


@given(
    topic=st.text(max_size=260),
    correlation_id=int32s,
    topic_id=topic_ids,
    version=st.sampled_from(PRODUCE_VERSIONS),
    offsets=st.tuples(int64s, int64s, int64s),
    index=int32s,
)
@settings(max_examples=examples(100), deadline=None)
def test_the_answer_to_one_good_partition_is_the_general_answer(
    topic: str, topic_id: bytes, correlation_id: int, version: int, offsets: tuple[int, int, int], index: int
) -> None:
    name = topic_id if version >= hot_produce.TOPIC_IDS_FROM else topic.encode()
    reply = hot_produce.PartitionReply(index, 0, *offsets)
    general = hot_produce.encode_response(correlation_id, version, [(name, [reply])], 0)
    assert hot_produce.encode_single(correlation_id, version, name, index, *offsets) == general


usual_produces = st.builds(
    ProduceRequest,
    transactional_id=st.none() | names,
    acks=int16s,
    timeout_ms=int32s,
    topic_data=st.tuples(
        st.builds(
            TopicProduceData,
            name=st.text(alphabet="abcä", max_size=260),
            topic_id=topic_ids,
            partition_data=st.tuples(
                st.builds(
                    PartitionProduceData,
                    index=int32s,
                    records=st.none() | st.sampled_from([0, 1, 126, 127, 128, 16_383, 16_384, 70_000]).map(bytes),
                )
            ),
        )
    ),
)


def _read(decode: Callable[[], object]) -> object:
    """What is read, or that it cannot be."""
    try:
        return decode()
    except (WireError, struct.error, IndexError, UnicodeDecodeError):
        return "refused"


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@given(request=usual_produces | produce_requests, tail=st.binary(max_size=4), data=st.data())
@settings(max_examples=examples(50), deadline=None)
def test_one_partition_is_read_at_once_as_it_is_read_field_by_field(
    version: int, request: ProduceRequest, tail: bytes, data: st.DataObject
) -> None:
    """Whole, cut off, and with a byte changed: the two ways of reading agree, or the first leaves it to the second."""
    body = bytearray(request.encode(version) + tail)
    end = len(body) - len(tail) - data.draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    if data.draw(st.booleans()) and body:
        body[data.draw(st.integers(0, min(len(body), 60) - 1))] = data.draw(st.integers(0, 255))
    at_once = _read(lambda: hot_produce._DECODER.decode_single(body, 0, end, version))
    by_field = _read(lambda: hot_produce._DECODER.decode_of_any_shape(body, 0, end, version))
    assert at_once is None or at_once == by_field


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("transactional_id", [None, "a" * 126])
@pytest.mark.parametrize("name", ["a", "a" * 126])
@pytest.mark.parametrize("size", [0, 126, 127, 16_383, 2_097_151, 2_097_152])
def test_one_partition_is_read_at_once(version: int, transactional_id: str | None, name: str, size: int) -> None:
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=9,
        topic_data=[TopicProduceData(name=name, partition_data=[PartitionProduceData(index=3, records=bytes(size))])],
    )
    body = bytearray(request.encode(version))
    spans = hot_produce._DECODER.decode_single(body, 0, len(body), version)
    assert spans is not None
    ((topic, index, start, stop),) = spans.partitions
    assert (*spans[:3], topic, index, stop - start) == (transactional_id, -1, 9, name.encode(), 3, size)


fetch_requests = st.builds(
    FetchRequest,
    replica_id=int32s,
    max_wait_ms=int32s,
    min_bytes=int32s,
    max_bytes=int32s,
    isolation_level=st.integers(0, 1),
    session_id=int32s,
    session_epoch=int32s,
    rack_id=names,
    topics=lists_of(
        st.builds(
            FetchTopic,
            topic=names,
            topic_id=st.binary(min_size=16, max_size=16),
            partitions=lists_of(
                st.builds(
                    FetchPartition,
                    partition=int32s,
                    current_leader_epoch=int32s,
                    fetch_offset=int64s,
                    last_fetched_epoch=int32s,
                    log_start_offset=int64s,
                    partition_max_bytes=int32s,
                )
            ),
        )
    ),
    forgotten_topics_data=lists_of(
        st.builds(
            ForgottenTopic,
            topic=names,
            topic_id=st.binary(min_size=16, max_size=16),
            partitions=lists_of(int32s),
        )
    ),
)


@pytest.mark.parametrize("version", range(18))
@given(request=fetch_requests, before=st.binary(max_size=9), after=st.binary(max_size=9))
@settings(max_examples=examples(12), deadline=None)
def test_a_fetch_request_is_read_as_its_message_says(
    version: int, request: FetchRequest, before: bytes, after: bytes
) -> None:
    body = request.encode(version)
    spans = hot_fetch.decode_request(bytearray(before + body + after), len(before), len(before) + len(body), version)
    plain = FetchRequest.decode(body, version)

    def key(topic: FetchTopic | ForgottenTopic) -> str | bytes:
        return topic.topic_id if version >= 13 else topic.topic

    assert (spans.max_wait_ms, spans.min_bytes, spans.rack_id) == (plain.max_wait_ms, plain.min_bytes, plain.rack_id)
    assert (spans.max_bytes, spans.isolation_level) == (plain.max_bytes, plain.isolation_level)
    assert (spans.session_id, spans.session_epoch) == (plain.session_id, plain.session_epoch)
    assert spans.replica_id == (plain.replica_id if version <= 14 else plain.replica_state.replica_id)
    assert spans.topics == [
        (
            key(topic),
            [
                hot_fetch.FetchPartition(
                    p.partition,
                    p.fetch_offset,
                    p.partition_max_bytes,
                    p.current_leader_epoch,
                    p.last_fetched_epoch,
                    p.log_start_offset,
                )
                for p in topic.partitions
            ],
        )
        for topic in plain.topics
    ]
    assert spans.forgotten == [(key(topic), list(topic.partitions)) for topic in plain.forgotten_topics_data]


usual_fetches = st.builds(
    FetchRequest,
    replica_id=st.sampled_from([-1, -1, 2]),
    max_wait_ms=int32s,
    min_bytes=int32s,
    max_bytes=int32s,
    isolation_level=st.integers(0, 1),
    session_id=int32s,
    session_epoch=int32s,
    rack_id=st.text(alphabet="abä", max_size=140),
    topics=st.tuples(
        st.builds(
            FetchTopic,
            topic=st.text(alphabet="abcä", max_size=140),
            topic_id=st.binary(min_size=16, max_size=16),
            partitions=st.tuples(
                st.builds(
                    FetchPartition,
                    partition=int32s,
                    current_leader_epoch=int32s,
                    fetch_offset=int64s,
                    last_fetched_epoch=int32s,
                    log_start_offset=int64s,
                    partition_max_bytes=int32s,
                )
            ),
        )
    ),
)


@needs_c
@pytest.mark.parametrize("version", range(18))
@given(
    request=usual_fetches | fetch_requests,
    before=st.binary(max_size=3),
    after=st.binary(max_size=9),
    cut=st.sampled_from([0, 0, 0, 1, 2, 3, 20]),
    changes=edits,
)
@settings(max_examples=examples(60), deadline=None)
def test_the_c_decoder_reads_a_fetch_as_the_python_one_or_leaves_it_to_it(
    version: int, request: FetchRequest, before: bytes, after: bytes, cut: int, changes: list[Edit]
) -> None:
    whole = c_and_python_agree(hot_fetch._DECODER, request.encode(version), version, before, after, cut, changes)
    # Whole requests are read here, of any shape and with the tag of a follower.
    assert whole is not None or cut or changes


@pytest.mark.parametrize("version", range(18))
@given(request=usual_fetches | fetch_requests, tail=st.binary(max_size=4), data=st.data())
@settings(max_examples=examples(50), deadline=None)
def test_a_fetch_of_one_partition_is_read_at_once_as_it_is_read_field_by_field(
    version: int, request: FetchRequest, tail: bytes, data: st.DataObject
) -> None:
    """Whole, cut off, and with a byte changed: the two ways of reading agree, or the first leaves it to the second."""
    body = bytearray(request.encode(version) + tail)
    end = len(body) - len(tail) - data.draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    if data.draw(st.booleans()):
        body[data.draw(st.integers(0, min(len(body), 100) - 1))] = data.draw(st.integers(0, 255))
    at_once = _read(lambda: hot_fetch._DECODER.decode_single(body, 0, end, version))
    assert at_once is None or at_once == _read(lambda: hot_fetch._DECODER.decode_of_any_shape(body, 0, end, version))


@pytest.mark.parametrize("version", range(4, 18))
@pytest.mark.parametrize("rack_id", ["", "a" * 126])
@pytest.mark.parametrize("name", ["a", "a" * 126])
def test_a_fetch_of_one_partition_is_read_at_once(version: int, rack_id: str, name: str) -> None:
    partition = FetchPartition(partition=3, fetch_offset=4, partition_max_bytes=5)
    request = FetchRequest(
        max_wait_ms=1,
        min_bytes=2,
        max_bytes=3,
        session_epoch=-1,
        topics=[FetchTopic(topic=name, topic_id=b"t" * 16, partitions=[partition])],
        rack_id=rack_id if version >= 11 else "",
    )
    body = bytearray(request.encode(version))
    key = b"t" * 16 if version >= 13 else name
    spans = hot_fetch._DECODER.decode_single(body, 0, len(body), version)
    assert spans == (-1, 1, 2, 3, 0, 0, -1, [(key, [(3, 4, 5, -1, -1, -1)])], [], request.rack_id)


fetch_replies = st.builds(
    hot_fetch.PartitionReply,
    partition_index=int32s,
    error_code=int16s,
    high_watermark=int64s,
    last_stable_offset=int64s,
    log_start_offset=int64s,
    aborted_transactions=st.none() | lists_of(st.tuples(int64s, int64s)),
    preferred_read_replica=int32s,
    records=st.none() | st.binary(max_size=300),
    diverging_epoch=st.none() | st.tuples(int32s, int64s),
    current_leader=st.none() | st.tuples(int32s, int32s),
)


class _Slice:
    """Stands for a file slice: the codec must pass it on untouched and count its length."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.length = len(data)


@pytest.mark.parametrize("version", range(18))
@given(data=st.data(), correlation_id=int32s)
@settings(max_examples=examples(12), deadline=None)
def test_a_fetch_response_is_written_as_its_message_says(
    version: int, data: st.DataObject, correlation_id: int
) -> None:
    keys = st.binary(min_size=16, max_size=16) if version >= 13 else names
    topics = data.draw(lists_of(st.tuples(keys, lists_of(fetch_replies))))
    in_file = data.draw(st.booleans())
    given_topics = [
        (key, [r._replace(records=_Slice(r.records)) if in_file and r.records else r for r in replies])
        for key, replies in topics
    ]
    chunks = hot_fetch.encode_response(correlation_id, version, given_topics, session_id=7, throttle_time_ms=5)
    frame = b"".join(chunk if isinstance(chunk, bytes) else cast(_Slice, chunk).data for chunk in chunks)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    body = frame[8 + (version >= 12) :]
    response = FetchResponse.decode(body, version)
    assert response.encode(version) == body
    if version >= 7:
        assert response.session_id == 7
    partitions = [p for topic in response.responses for p in topic.partitions]
    asked = [reply for _, replies in topics for reply in replies]
    for partition, reply in zip(partitions, asked, strict=True):
        assert bytes(partition.records or b"") == (reply.records or b"")
        assert (partition.partition_index, partition.error_code) == (reply.partition_index, reply.error_code)
        assert partition.high_watermark == reply.high_watermark
        if version >= 4:
            aborted = partition.aborted_transactions
            assert (None if aborted is None else [(a.producer_id, a.first_offset) for a in aborted]) == (
                reply.aborted_transactions
            )


@given(
    correlation_id=int32s,
    version=st.integers(4, 17),
    session_id=int32s,
    topic_id=st.binary(min_size=16, max_size=16),
    name=names,
    reply=fetch_replies,
    length=st.integers(1, 100_000),
)
@settings(max_examples=examples(200), deadline=None)
def test_the_answer_with_records_of_one_partition_is_the_general_answer(
    correlation_id: int,
    version: int,
    session_id: int,
    topic_id: bytes,
    name: str,
    reply: hot_fetch.PartitionReply,
    length: int,
) -> None:
    key = topic_id if version >= 13 else name
    topics = [(key, [reply._replace(records=_Slice(bytes(length)))])]
    general = hot_fetch._encode(correlation_id, version, topics, 0, session_id, 9)
    assert general == hot_fetch.encode_response(
        correlation_id, version, topics, session_id=session_id, throttle_time_ms=9
    )


@pytest.mark.parametrize("decode", [hot_produce.decode_request, hot_fetch.decode_request])
@given(data=st.binary(max_size=120), version=st.sampled_from(PRODUCE_VERSIONS))
@settings(max_examples=examples(300), deadline=None)
def test_hostile_bytes_raise_wire_error_and_nothing_else(
    decode: Callable[..., object], data: bytes, version: int
) -> None:
    with contextlib.suppress(WireError):
        decode(bytearray(data), 0, len(data), version)
