"""Filters and cursors of the messages page."""

import pytest

from tidelog.client.aio.consumer.types import ConsumerRecord, TimestampType
from tidelog.console.reading import Bounds, CursorError, FilterError, make_filter, parse_cursor, write_cursor


def record(key=b"k", value=b"v", headers=()):
    return ConsumerRecord("t", 0, 0, 0, key, value, headers, TimestampType.CREATE_TIME, 0)


@pytest.mark.parametrize(
    ("text", "where", "key", "given", "is_found"),
    [
        ("", "all", "", record(), True),
        ("Needle", "all", "", record(value=b"a needle here"), True),
        ("needle hay", "all", "", record(key=b"HAY", value=b"needle"), True),
        ("needle straw", "all", "", record(value=b"needle"), False),
        ('"two words"', "value", "", record(value=b"words two words"), True),
        ('"two words"', "value", "", record(value=b"words, two"), False),
        ("needle -blunt", "all", "", record(value=b"blunt needle"), False),
        ("-blunt", "all", "", record(value=b"sharp"), True),
        ("k", "value", "", record(), False),
        ("trace", "headers", "", record(headers=(("trace", None),)), True),
        ("", "all", "k", record(), True),
        ("", "all", "k", record(key=b"kk"), False),
        ("", "all", "k", record(key=None), False),
        ("x", "all", "", record(key=None, value=None), False),
    ],
)
def test_a_filter_finds_words(text, where, key, given, is_found):
    assert make_filter(text, where, key)(given) is is_found


def test_a_filter_is_bounded():
    with pytest.raises(FilterError, match="at most 500"):
        make_filter("x" * 501, "all", "")


def test_cursors_are_written_and_read_and_kept_inside_their_partitions():
    cursor = {3: 17, 0: 5}
    assert write_cursor(cursor) == "0:5,3:17"
    assert parse_cursor("0:5,3:17") == cursor
    assert Bounds({0: 10, 3: 0}, {0: 20, 3: 4}).clamp({**cursor, 9: 1}) == {0: 10, 3: 4}


@pytest.mark.parametrize("text", ["x", "1", "1:", "1:x", "-1:2", "1:2,", "1:" + "9" * 20])
def test_anything_else_is_no_cursor(text):
    with pytest.raises(CursorError):
        parse_cursor(text)
