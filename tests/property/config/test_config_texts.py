"""Any text is parsed or refused with ConfigError, and what is printed is read back as the same value."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.config import (
    BrokerConfig,
    ConfigError,
    LogConfig,
    format_properties,
    load_broker_config,
    parse_properties,
    topic_config,
)
from tidelog.config.kinds import BOOLEAN, DOUBLE, INT, LIST, LONG, SHORT
from tidelog.config.layers import ConfigLayers

texts = st.text(max_size=40)
encodable = st.text(st.characters(codec="utf-8"), max_size=20)
broker_names = st.sampled_from(sorted(BrokerConfig.settings))
topic_names = st.sampled_from(sorted(LogConfig.settings))
# Mostly near misses: pieces of real values in wrong places.
values = st.one_of(
    texts,
    st.integers().map(str),
    st.floats().map(str),
    st.text("PLAINTEXTSL:/[],.0123456789 -*", max_size=40),
    st.sampled_from(["true", "compact", "PLAINTEXT://h:1", "3.9-IV0", ""]),
)


@settings(deadline=None, max_examples=examples(100))
@given(st.dictionaries(encodable, encodable, max_size=5))
def test_properties_survive_being_written_and_read(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties)) == properties


@settings(deadline=None, max_examples=examples(100))
@given(st.one_of(texts, st.text("ab=: \\\n\r#!u0tf", max_size=40)))
def test_any_text_is_properties_or_is_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        for key, value in parse_properties(text).items():
            assert isinstance(key, str)
            assert isinstance(value, str)


@settings(deadline=None, max_examples=examples(100))
@given(st.dictionaries(broker_names, values, max_size=4))
def test_any_broker_settings_are_loaded_or_refused(properties: dict[str, str]) -> None:
    with contextlib.suppress(ConfigError):
        config = load_broker_config(properties)
        for entry in ConfigLayers(properties).describe_broker(properties):
            declared = BrokerConfig.settings[entry.name]
            if entry.value is not None:
                assert declared.parse(entry.value) == getattr(config, declared.field)


@settings(deadline=None, max_examples=examples(100))
@given(st.dictionaries(topic_names, values, max_size=4))
def test_any_topic_settings_are_loaded_or_refused(overrides: dict[str, str]) -> None:
    with contextlib.suppress(ConfigError):
        config = topic_config(overrides, BrokerConfig())
        described = {entry.name: entry.value for entry in ConfigLayers({}).describe_topic(overrides)}
        text = {name: value for name, value in described.items() if value is not None}
        assert topic_config(text, BrokerConfig()) == config


@settings(deadline=None, max_examples=examples(100))
@given(
    st.one_of(
        st.tuples(st.just(BOOLEAN), st.booleans()),
        st.tuples(st.just(SHORT), st.integers(-(2**15), 2**15 - 1)),
        st.tuples(st.just(INT), st.integers(-(2**31), 2**31 - 1)),
        st.tuples(st.just(LONG), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just(DOUBLE), st.floats(allow_nan=False)),
        st.tuples(st.just(LIST), st.lists(st.text("abc:*", min_size=1, max_size=5)).map(tuple)),
    )
)
def test_values_survive_being_printed_and_read(typed) -> None:  # type: ignore[no-untyped-def]
    kind, value = typed
    assert kind.parse(kind.format(value)) == value
