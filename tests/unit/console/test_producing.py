"""The form that produces a record again gives back exactly what the record has."""

import base64

import pytest

from tidelog.client.aio.consumer.types import ConsumerRecord, TimestampType
from tidelog.console.pages.producing import BASE64, TEXT, values_of


def record(key, value, headers=()):
    return ConsumerRecord("t", 3, 7, 0, key, value, headers, TimestampType.CREATE_TIME, 0)


@pytest.mark.parametrize("key", [b"k", b"", None, "Grüße".encode()])
@pytest.mark.parametrize("value", [b'{"a": 1}\nand more', b""])
def test_text_is_shown_as_text(key, value):
    values = values_of(record(key, value, (("h", b"v"), ("h", "ü".encode()))))
    assert (values["key_encoding"], values["value_encoding"]) == (TEXT, TEXT)
    assert (values["key"].encode(), values["value"].encode()) == (key or b"", value)
    assert values["headers"] == "h=v\nh=ü"
    assert values["partition"] == "3"


@pytest.mark.parametrize("key", [b"\x80", b"a\nb", b" k", b"k\r"])
def test_a_key_that_a_form_would_change_is_shown_as_base64(key):
    values = values_of(record(key, b"text"))
    assert (values["key_encoding"], values["value_encoding"]) == (BASE64, TEXT)
    assert base64.b64decode(values["key"]) == key


@pytest.mark.parametrize("value", [b"\xff", b"line\r\nline", b"\nline"])
def test_a_value_that_a_form_would_change_is_shown_as_base64(value):
    values = values_of(record(b"k", value))
    assert (values["key_encoding"], values["value_encoding"]) == (TEXT, BASE64)
    assert base64.b64decode(values["value"]) == value


def test_each_header_is_text_or_base64():
    values = values_of(record(b"k", b"v", (("a", b"text"), ("b", b"\0\1"), ("c", b"two\nlines"))))
    assert values["headers"].splitlines() == ["a=text", "b;base64=AAE=", "c;base64=dHdvCmxpbmVz"]
    assert values["value_encoding"] == TEXT


def test_a_tombstone_stays_one_and_headers_without_a_value_are_left_out():
    values = values_of(record(b"k", None, (("gone", None), ("h", b"v"))))
    assert (values["tombstone"], values["headers"]) == ("1", "h=v")
