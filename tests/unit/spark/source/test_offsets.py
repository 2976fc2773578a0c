"""Offsets as JSON."""

import json

import pytest

from tests.unit.spark.source.fakes import offsets, tp
from tidelog.spark.options import OptionError
from tidelog.spark.source.offsets import (
    ORIGIN,
    from_json,
    origin_of,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
    to_json,
)


def test_offsets_are_written_with_sorted_keys():
    """Spark compares offsets as strings; the same offsets must be the same text. Partitions sort as numbers."""
    shown = to_json(offsets(b_1=1, a_10=2, a_2=3))
    assert json.dumps(shown) == '{"a": {"2": 3, "10": 2}, "b": {"1": 1}}'


def test_what_was_written_is_read_back():
    assert from_json(json.loads(json.dumps(to_json(offsets(a_0=5, b_3=7))))) == offsets(a_0=5, b_3=7)


def test_the_origin_of_a_query_rides_along_and_is_no_topic():
    shown = to_json(offsets(a_0=5), origin=offsets(a_0=3))
    assert from_json(shown) == offsets(a_0=5)
    assert origin_of(shown) == offsets(a_0=3)
    assert origin_of(to_json(offsets(a_0=5))) is None
    # Kafka's topic names have no such character.
    assert "$" in ORIGIN


def test_options_may_use_minus_one_and_two():
    assert parse_offsets("startingOffsets", '{"t":{"0":23,"1":-1,"2":-2}}') == offsets(t_0=23, t_1=-1, t_2=-2)


def test_assignments_are_sorted_and_without_repetition():
    assert parse_assignment("assign", '{"b":[1,0,1],"a":[2]}') == (tp("a-2"), tp("b-0"), tp("b-1"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("erliest", "'erliest': it must be JSON"),
        ("[]", "it must be JSON"),
        ("{}", "it must be JSON"),
        ('{"t":5}', "has 5 for topic 't'"),
        ('{"t":{"x":5}}', "partition 'x' of topic 't'"),
        ('{"t":{"-1":5}}', "partition '-1' of topic 't'"),
        ('{"t":{"4294967296":5}}', "partition '4294967296'"),
        ('{"t":{"0":"5"}}', "has '5' for t-0"),
        ('{"t":{"0":true}}', "has True for t-0"),
        ('{"t":{"0":1.5}}', "has 1.5 for t-0"),
        ('{"t":{"0":-3}}', "has -3 for t-0"),
        ('{"t":{"0":9223372036854775808}}', "has 9223372036854775808 for t-0"),
    ],
)
def test_bad_offsets_are_named(text, said):
    with pytest.raises(OptionError, match=said) as failure:
        parse_offsets("startingOffsets", text)
    assert "'startingOffsets'" in str(failure.value)


def test_times_are_not_negative():
    with pytest.raises(OptionError, match="has -1 for t-0"):
        parse_timestamps("startingOffsetsByTimestamp", '{"t":{"0":-1}}')


@pytest.mark.parametrize("text", ['{"t":0}', '{"t":[]}', '{"t":["0"]}', '{"t":[-1]}', '{"t":[true]}', "t"])
def test_bad_assignments_are_named(text):
    with pytest.raises(OptionError, match="option 'assign'"):
        parse_assignment("assign", text)
