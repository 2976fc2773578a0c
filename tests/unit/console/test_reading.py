"""Filters of the messages page."""

import pytest

from tidelog.client.aio.consumer.types import ConsumerRecord, TimestampType
from tidelog.console.reading import FilterError, make_filter


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
