import pytest

from tidelog.client.aio.consumer.offset_reset import EARLIEST, LATEST, NONE, parse_duration_ms, parse_offset_reset
from tidelog.client.errors import ClientConfigError


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("P1D", 86_400_000),
        ("PT1H", 3_600_000),
        ("PT1M30S", 90_000),
        ("P2DT3H4M5.006S", 183_845_006),
        ("pt0s", 0),
        (" PT5M ", 300_000),
    ],
)
def test_durations_are_those_of_java(text, milliseconds):
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "1D", "P1H", "PT1D", "P1DT", "PT1M1H", "PT-1S", "PT1.5M", "P1W", "PTS"]
)
def test_other_texts_are_no_durations(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)


def test_the_policies_are_kafkas():
    assert parse_offset_reset("earliest") == EARLIEST
    assert parse_offset_reset("LATEST") == LATEST
    assert parse_offset_reset(" none ") == NONE
    assert NONE.is_none


def test_a_policy_says_what_to_ask_leaders_for():
    assert EARLIEST.timestamp(5000) == -2
    assert LATEST.timestamp(5000) == -1
    assert parse_offset_reset("by_duration:PT3S").timestamp(5000) == 2000
    assert parse_offset_reset("by_duration:P9D").timestamp(5000) == 0


@pytest.mark.parametrize("text", ["", "first", "by_duration", "by_duration:", "by_duration:3h"])
def test_mistakes_name_the_setting_and_the_value(text):
    with pytest.raises(ClientConfigError, match=r"auto\.offset\.reset='" + text):
        parse_offset_reset(text)
