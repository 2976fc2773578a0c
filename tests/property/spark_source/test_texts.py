"""Whatever is written into an option, it is read or refused by name; nothing else happens."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.client.types import TopicPartition
from tidelog.spark.options import OptionError, Options, parse_duration_ms
from tidelog.spark.source.limits import Latest, read_limit
from tidelog.spark.source.offsets import (
    from_json,
    origin_of,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
    to_json,
)
from tidelog.spark.source.strategies import compile_java

names = st.text("abcXYZ019._-", min_size=1, max_size=12)
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
offset_maps = st.dictionaries(partitions, st.integers(0, 2**63 - 1), min_size=1, max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
texts = st.text(max_size=60) | json_values.map(json.dumps)
quick = settings(max_examples=examples(60), deadline=None)


def _check_named(error, option):
    assert option in str(error)


@quick
@given(offset_maps, st.none() | offset_maps)
def test_offsets_survive_the_checkpoint(offsets, origin):
    shown = json.loads(json.dumps(to_json(offsets, origin)))
    assert from_json(shown) == offsets
    assert origin_of(shown) == origin
    assert json.dumps(to_json(from_json(shown), origin_of(shown))) == json.dumps(shown)


@quick
@given(offset_maps)
def test_what_is_shown_can_be_given_back_as_an_option(offsets):
    assert parse_offsets("startingOffsets", json.dumps(to_json(offsets))) == offsets


@quick
@given(texts, st.sampled_from([parse_offsets, parse_timestamps, parse_assignment]))
def test_any_text_is_offsets_or_refused_by_name(text, parse):
    try:
        found = parse("anOption", text)
    except OptionError as error:
        _check_named(error, "'anOption'")
    else:
        assert all(0 <= each.partition < 2**31 for each in found)


@quick
@given(json_values)
def test_any_checkpoint_is_read_or_refused(value):
    if isinstance(value, dict):
        try:
            from_json(value)
        except OptionError:
            return


@quick
@given(texts)
def test_any_limit_is_read_or_refused(text):
    try:
        read_limit(Options({"startingOffsets": text, "startingTimestamp": ""}), "starting", Latest())
    except OptionError as error:
        _check_named(error, "'startingOffsets'")


@quick
@given(st.text(max_size=30) | st.text("\\pPQEkz{}()<>[]^&|*+?.aA0-:!=", max_size=30))
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_any_pattern_is_compiled_or_refused(text):
    try:
        compile_java(text).search("a-topic.name_0")
    except OptionError as error:
        _check_named(error, "'subscribePattern'")


@quick
@given(names)
def test_a_quoted_name_is_that_name(name):
    assert compile_java(rf"^\Q{name}\E$").search(name)
    assert compile_java(rf"^\Q{name}\E$").search(name + "x") is None


@quick
@given(st.text(max_size=12) | st.from_regex(r"[0-9]{1,20}(ms|s|m|h|d)?", fullmatch=True))
def test_any_time_is_read_or_refused(text):
    try:
        assert parse_duration_ms("maxTriggerDelay", text) >= 0
    except OptionError as error:
        _check_named(error, "'maxTriggerDelay'")
