"""Options are found in any case, converted, and refused with a sentence that names them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.options import OptionError, Options


def test_names_are_found_in_any_case() -> None:
    options = Options({"startingoffsets": "earliest", "Subscribe": " a,b "})

    assert options.text("startingOffsets") == "earliest"
    assert options.text("subscribe") == "a,b"
    assert options.text("assign") is None


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_value_is_no_value(blank: str) -> None:
    assert Options({"topic": blank}).text("topic") is None


def test_a_missing_option_is_named_with_its_meaning() -> None:
    with pytest.raises(OptionError, match=r"'kafka.bootstrap.servers' is missing: a list of host:port"):
        Options({}).bootstrap_servers()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("ten", "'minPartitions' is 'ten': it must be a whole number"),
        ("1_0", "'minPartitions' is '1_0': it must be a whole number"),
        ("٣", "it must be a whole number"),
        ("9" * 5000, "it must be a whole number"),
        ("0", "is 0: it must be at least 1"),
    ],
)
def test_a_number_that_is_none_or_too_small_is_refused(value: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        Options({"minpartitions": value}).number("minPartitions")


def test_flags_and_choices_are_read_in_any_case_and_refused_by_name() -> None:
    options = Options({"a": "TRUE", "b": "yes", "c": "Latest", "d": "soon"})

    assert options.flag("a", default=False) is True
    assert options.flag("missing", default=True) is True
    assert options.one_of("c", {"latest", "error"}, "error") == "latest"
    with pytest.raises(OptionError, match="'b' is 'yes': it must be true or false"):
        options.flag("b", default=False)
    with pytest.raises(OptionError, match="'d' is 'soon': it must be one of error, latest"):
        options.one_of("d", {"latest", "error"}, "error")


def test_client_settings_lose_their_prefix_and_some_are_refused_with_the_reason() -> None:
    options = Options({"kafka.client.id": " me ", "subscribe": "t", "kafka.auto.offset.reset": "latest"})

    assert options.kafka_settings({}) == {"client.id": "me", "auto.offset.reset": "latest"}
    with pytest.raises(OptionError, match=r"'kafka.auto.offset.reset' cannot be set: use startingOffsets"):
        options.kafka_settings({"auto.offset.reset": "use startingOffsets"})


def test_exactly_one_of_several_options_is_asked_for() -> None:
    names = ("assign", "subscribe", "subscribePattern")

    assert Options({"subscribe": "t"}).exactly_one_of(names) == ("subscribe", "t")
    with pytest.raises(OptionError, match="one of the options assign, subscribe, subscribePattern must be set"):
        Options({}).exactly_one_of(names)
    with pytest.raises(OptionError, match="not assign and subscribe"):
        Options({"assign": "{}", "subscribe": "t"}).exactly_one_of(names)


def test_options_without_a_meaning_here_are_refused() -> None:
    with pytest.raises(OptionError, match="'endingOffsets' cannot be set here: a stream has no end"):
        Options({"endingoffsets": "latest"}).refuse(["endingOffsets"], "a stream has no end")


@given(st.text())
def test_a_number_is_read_or_refused_whatever_the_text(text: str) -> None:
    with suppress(OptionError):
        number = Options({"n": text}).number("n")
        assert number is None or number >= 1
