"""Rows of requests follow the declaration: a new version is read without another line of code."""

from __future__ import annotations

import pytest

from tests.property.wire.in_c import needs_c, read_in_c
from tidelog.wire.errors import WireError
from tidelog.wire.fields import Declared
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, record_batches, string, struct, uuid
from tidelog.wire.spans import Row, RowDecoder


class Reader(Struct):
    reader_id: int = int32(-1)
    reader_epoch: int = int64(-1)


class Part(Struct):
    index: int = int32()
    unused: int = int64(7)
    added: int = int16(-3, since=1)
    records: bytes | None = record_batches()


class Topic(Struct):
    name: str = string(until=2)
    topic_id: bytes = uuid(since=3)
    parts: list[Part] = array(Part)
    dropped: list[int] = array(int32, since=1)


class Request(Message, api_key=0, versions=(0, 3), flexible_from=2):
    title: str | None = string(None, since=1, null_since=1)
    reader: Reader = struct(Reader, since=3, tag=1)
    topics: list[Topic] = array(Topic)


ROWS: dict[type[Declared], Row] = {
    Request: Row(("title", "reader", "topics"), usually_empty=("dropped",)),
    Reader: Row(("reader_id",), make=None),
    Topic: Row(("name|topic_id",), inner="parts"),
    Part: Row(("index", "added", "records")),
}
DECODER = RowDecoder[object](Request, ROWS, elements_max=10)


def request(topics: int = 1, parts: int = 1) -> Request:
    return Request(
        title="a title",
        reader=Reader(reader_id=5),
        topics=[
            Topic(name="t", topic_id=b"u" * 16, parts=[Part(index=i, added=4, records=b"ab") for i in range(parts)])
            for _ in range(topics)
        ],
    )


def expected(version: int, body: bytes, topics: int = 1, parts: int = 1) -> object:
    name = b"u" * 16 if version == 3 else "t"
    starts = iter([place for place in range(len(body)) if body[place : place + 2] == b"ab"])
    rows = []
    for _ in range(topics):
        for index in range(parts):
            start = next(starts)
            rows.append((name, index, -3 if version == 0 else 4, start, start + 2))
    return (None if version == 0 else "a title", 5 if version == 3 else -1, rows)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(("topics", "parts"), [(1, 1), (1, 3), (3, 2), (0, 0)])
def test_every_version_is_read_as_its_declaration_says(version: int, topics: int, parts: int) -> None:
    body = request(topics, parts).encode(version)
    row = expected(version, body, topics, parts)
    assert DECODER.decode_of_any_shape(body, 0, len(body), version) == row
    assert DECODER.decode(body, 0, len(body), version) == row


@pytest.mark.parametrize("version", range(4))
def test_the_usual_request_is_read_at_once_and_others_are_not(version: int) -> None:
    body = request().encode(version)
    assert DECODER.decode_single(body, 0, len(body), version) == expected(version, body)
    body = request(2).encode(version)
    assert DECODER.decode_single(body, 0, len(body), version) is None


@needs_c
@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize(("topics", "parts"), [(1, 1), (1, 3), (3, 2)])
def test_the_c_module_follows_the_declaration_as_well(version: int, topics: int, parts: int) -> None:
    body = request(topics, parts).encode(version)
    assert read_in_c(DECODER, body, 0, len(body), version) == expected(version, body, topics, parts)


@pytest.mark.parametrize("version", range(4))
def test_more_elements_than_allowed_are_refused(version: int) -> None:
    body = request(2, 4).encode(version)
    assert DECODER.decode(body, 0, len(body), version) == expected(version, body, 2, 4)
    body = request(2, 5).encode(version)
    with pytest.raises(WireError, match="more topics and partitions than allowed, by 2"):
        DECODER.decode(body, 0, len(body), version)


@pytest.mark.parametrize("version", range(4))
def test_null_where_it_is_not_allowed_is_refused(version: int) -> None:
    """As the declared message does, and Kafka."""
    body = request(0).encode(version)
    place = body.index(b"a title") + len(b"a title") if version else 0
    empty, null = (b"\x01", b"\x00") if version >= 2 else (b"\x00\x00\x00\x00", b"\xff\xff\xff\xff")
    assert body[place:].startswith(empty)
    broken = body[:place] + null + body[place + len(empty) :]
    with pytest.raises(WireError, match="may not be null"):
        DECODER.decode(broken, 0, len(broken), version)
    with pytest.raises(WireError, match="may not be null"):
        Request.decode(broken, version)


def test_a_version_that_is_not_declared_is_refused() -> None:
    with pytest.raises(WireError, match="versions 0 to 3, not 4"):
        DECODER.decode_of_any_shape(b"", 0, 0, 4)
