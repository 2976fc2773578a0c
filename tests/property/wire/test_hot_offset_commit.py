"""The hot codec of OffsetCommit says the same as the declared messages, in every version."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.property.wire.in_c import Edit, c_and_python_agree, edits, needs_c, read_in_c, read_in_python
from tidelog.wire import offset_commit as hot
from tidelog.wire.errors import WireError
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSIONS = range(11)
Decode = Callable[[bytearray | memoryview, int, int, int], object]
DECODERS = [hot._DECODER.decode_in_python, hot.decode_request]
"""The Python decoder, and the one in C where it was built."""
texts = st.text(max_size=8) | st.text(alphabet="aä", min_size=120, max_size=140)
ids = st.binary(min_size=16, max_size=16)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)

partitions = st.builds(
    OffsetCommitRequestPartition,
    partition_index=int32s,
    committed_offset=int64s,
    committed_leader_epoch=int32s,
    commit_timestamp=int64s,
    committed_metadata=st.none() | texts,
)
requests = st.builds(
    OffsetCommitRequest,
    group_id=texts,
    generation_id_or_member_epoch=int32s,
    member_id=texts,
    group_instance_id=st.none() | texts,
    retention_time_ms=int64s,
    topics=st.lists(
        st.builds(OffsetCommitRequestTopic, name=texts, topic_id=ids, partitions=st.lists(partitions, max_size=3)),
        max_size=3,
    ),
)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("version", VERSIONS)
@given(request=requests, before=st.binary(max_size=9), after=st.binary(max_size=9))
@settings(max_examples=examples(25), deadline=None)
def test_a_commit_is_read_as_its_message_says(
    decode: Decode, version: int, request: OffsetCommitRequest, before: bytes, after: bytes
) -> None:
    body = request.encode(version)
    spans = decode(bytearray(before + body + after), len(before), len(before) + len(body), version)
    plain = OffsetCommitRequest.decode(body, version)
    assert spans == (
        plain.group_id,
        plain.generation_id_or_member_epoch,
        plain.member_id,
        plain.group_instance_id,
        plain.retention_time_ms,
        [
            (
                topic.topic_id if version >= hot.TOPIC_IDS_FROM else topic.name,
                [
                    (
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata,
                        partition.commit_timestamp,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in plain.topics
        ],
    )


usual_requests = st.builds(
    OffsetCommitRequest,
    group_id=texts,
    generation_id_or_member_epoch=int32s,
    member_id=texts,
    group_instance_id=st.none() | texts,
    topics=st.tuples(st.builds(OffsetCommitRequestTopic, name=texts, topic_id=ids, partitions=st.tuples(partitions))),
)


def _read_by_field(body: bytearray, end: int, version: int) -> object:
    """What the general codec reads, or that it cannot."""
    try:
        return hot._DECODER.decode_of_any_shape(body, 0, end, version)
    except WireError:
        return "refused"


@pytest.mark.parametrize("version", VERSIONS)
@given(request=usual_requests | requests, tail=st.binary(max_size=4), data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_one_partition_is_read_at_once_as_it_is_read_field_by_field(
    version: int, request: OffsetCommitRequest, tail: bytes, data: st.DataObject
) -> None:
    """Whole, cut off, and with a byte changed: the two ways of reading agree, or the first leaves it to the second."""
    body = bytearray(request.encode(version) + tail)
    end = len(body) - len(tail) - data.draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    if data.draw(st.booleans()):
        body[data.draw(st.integers(0, min(len(body), 100) - 1))] = data.draw(st.integers(0, 255))
    at_once = hot._DECODER.decode_single(body, 0, end, version)
    assert at_once is None or at_once == _read_by_field(body, end, version)


@needs_c
@pytest.mark.parametrize("version", VERSIONS)
@given(
    request=usual_requests | requests,
    before=st.binary(max_size=3),
    after=st.binary(max_size=9),
    cut=st.sampled_from([0, 0, 0, 1, 2, 3, 20]),
    changes=edits,
)
@settings(max_examples=examples(100), deadline=None)
def test_the_c_decoder_reads_what_the_python_one_reads_or_leaves_it_to_it(
    version: int,
    request: OffsetCommitRequest,
    before: bytes,
    after: bytes,
    cut: int,
    changes: list[Edit],
) -> None:
    found = c_and_python_agree(hot._DECODER, request.encode(version), version, before, after, cut, changes)
    # Whole requests are decoded here: nothing was changed that could be a tagged field.
    assert found is not None or cut or changes


@needs_c
@pytest.mark.parametrize(("start", "end"), [(-1, 4), (3, 2), (0, 100)])
def test_the_c_decoder_reads_nothing_outside_the_data(start: int, end: int) -> None:
    assert read_in_c(hot._DECODER, bytearray(8), start, end, 8) is None


@needs_c
@given(data=st.binary(max_size=80), version=st.sampled_from(VERSIONS))
@settings(max_examples=examples(300), deadline=None)
def test_the_c_decoder_agrees_about_hostile_bytes(data: bytes, version: int) -> None:
    found = read_in_c(hot._DECODER, bytearray(data), 0, len(data), version)
    assert found is None or found == read_in_python(hot._DECODER, bytearray(data), 0, len(data), version)


@pytest.mark.parametrize("version", range(5, 11))
@pytest.mark.parametrize("member_id", ["", "member-1"])
@pytest.mark.parametrize("metadata", ["", "text"])
def test_one_partition_is_read_at_once(version: int, member_id: str, metadata: str) -> None:
    partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=2, committed_metadata=metadata)
    topics = [OffsetCommitRequestTopic(name="topic", topic_id=b"i" * 16, partitions=[partition])]
    key = b"i" * 16 if version >= hot.TOPIC_IDS_FROM else "topic"
    body = bytearray(OffsetCommitRequest(group_id="group", member_id=member_id, topics=topics).encode(version))
    spans = hot._DECODER.decode_single(body, 0, len(body), version)
    assert spans == ("group", -1, member_id, None, -1, [(key, [(1, 2, -1, metadata, -1)])])


@given(data=st.binary(max_size=80), version=st.sampled_from(VERSIONS))
@settings(max_examples=examples(300), deadline=None)
def test_hostile_bytes_raise_wire_error_and_nothing_else(data: bytes, version: int) -> None:
    with contextlib.suppress(WireError):
        hot.decode_request(bytearray(data), 0, len(data), version)


@pytest.mark.parametrize("version", VERSIONS)
@given(
    topics=st.lists(st.tuples(texts, ids, st.lists(st.tuples(int32s, int16s), max_size=3)), max_size=3),
    correlation_id=int32s,
)
@settings(max_examples=examples(25), deadline=None)
def test_a_response_is_written_as_its_message_says(
    version: int, topics: list[tuple[str, bytes, list[tuple[int, int]]]], correlation_id: int
) -> None:
    message = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in codes
                ],
            )
            for name, topic_id, codes in topics
        ]
    )
    header = correlation_id.to_bytes(4, "big", signed=True) + (b"\0" if version >= hot.FLEXIBLE_FROM else b"")
    frame = header + message.encode(version)
    keyed = [(topic_id if version >= hot.TOPIC_IDS_FROM else name, codes) for name, topic_id, codes in topics]
    assert hot.encode_response(correlation_id, version, keyed) == len(frame).to_bytes(4, "big") + frame
