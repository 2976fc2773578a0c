"""Output templates: the tokens and escapes of kcat. The expected bytes are those that kcat 1.7.1 prints."""

import pytest

from tidelog.cli._templates import parse_template
from tidelog.cli.errors import CommandError
from tidelog.client.aio.consumer.types import ConsumerRecord, TimestampType

FULL = ConsumerRecord(
    "t", 3, 7, 1_700_000_000_000, b"k1", b"v1", (("a", b"1"), ("b", None)), TimestampType.CREATE_TIME, -1
)
NULLS = FULL._replace(key=None, value=None, headers=())


@pytest.mark.parametrize(
    ("template", "full", "nulls"),
    [
        (r"%s|%S|%k|%K|%h|%t|%p|%o\n", b"v1|2|k1|2|a=1,b=NULL|t|3|7\n", b"|-1||-1||t|3|7\n"),
        ("%T", b"1700000000000", b"1700000000000"),
        (r"%R|\x41\x4z", b"\0\0\0\2|A\x04z", b"\xff\xff\xff\xff|A\x04z"),
        (r"a\tb\rc\x0a\\", b"a\tb\rc\n\\", b"a\tb\rc\n\\"),
        ("100%% é", "100% é".encode(), "100% é".encode()),
    ],
)
def test_a_record_is_printed_as_kcat_prints_it(template, full, nulls):
    write = parse_template(template)
    assert (write(FULL), write(NULLS)) == (full, nulls)


@pytest.mark.parametrize(
    ("template", "token"), [("%q", "'%q'"), ("ends in %", "'%'"), (r"\x", r"'\\x'"), ("\\", r"'\\'")]
)
def test_a_token_that_there_is_not_is_named_with_those_that_there_are(template, token):
    with pytest.raises(CommandError) as refused:
        parse_template(template)
    assert token in str(refused.value)
    assert "%s %S %R" in str(refused.value)
