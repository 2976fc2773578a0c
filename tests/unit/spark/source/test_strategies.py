"""Which partitions a source reads."""

from dataclasses import dataclass

import pytest

from tests.unit.spark.source.fakes import tp
from tidelog.spark.options import OptionError, Options
from tidelog.spark.source.strategies import compile_java, make_strategy


@dataclass
class Topic:
    partitions: tuple[int, ...] = (0,)
    is_internal: bool = False


FOUND = {"orders": Topic((0, 1)), "orders-eu": Topic(), "clicks": Topic(), "__consumer_offsets": Topic((0,), True)}


def _make(**options):
    return make_strategy(Options(options))


def test_subscribe_reads_all_partitions_of_named_topics():
    strategy = _make(subscribe=" orders , clicks,")
    assert strategy.topics == ("clicks", "orders")
    assert strategy.choose(FOUND) == [tp("clicks-0"), tp("orders-0"), tp("orders-1")]
    assert strategy.missing(FOUND) == []


def test_what_is_named_and_not_there_is_reported():
    assert _make(subscribe="orders,nowhere").missing(FOUND) == ["topic 'nowhere'"]
    assert _make(assign='{"orders":[1,2]}').missing(FOUND) == ["partition orders-2"]


def test_assign_reads_exactly_its_partitions():
    strategy = _make(assign='{"orders":[1]}')
    assert strategy.topics == ("orders",)
    assert strategy.choose(FOUND) == [tp("orders-1")]


def test_a_pattern_is_looked_for_anywhere_in_a_name_as_the_official_connector_does():
    strategy = _make(subscribePattern="order")
    assert strategy.topics is None
    assert strategy.choose(FOUND) == [tp("orders-0"), tp("orders-1"), tp("orders-eu-0")]
    assert _make(subscribePattern="^orders$").choose(FOUND) == [tp("orders-0"), tp("orders-1")]


def test_patterns_pass_over_internal_topics():
    assert _make(subscribePattern=".*offsets").choose(FOUND) == []
    assert _make(subscribePattern="no.*such").missing(FOUND) == []


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (r"\Qa.b\E-\d+", "a.b-17", True),
        (r"\Qa.b\E", "axb", False),
        (r"\Qa.b", "a.b", True),
        (r"(?<env>prod|test)-\k<env>", "prod-prod", True),
        (r"(?<env>prod|test)-\k<env>", "prod-test", False),
        (r"(?<!x)a", "a", True),
        (r"\p{Alpha}+\p{Digit}", "abc1", True),
        (r"[\p{Lower}_]+", "ab_c", True),
        (r"\P{Digit}+", "123", False),
        (r"\p{L}+", "abc", True),
        (r"(?i)ORDERS\z", "orders", True),
        (r"a++b", "aaab", True),
        (r"a\.b\Z", "a.b", True),
    ],
)
def test_java_patterns_mean_what_they_mean_in_java(pattern, name, matches):
    assert bool(compile_java(pattern).fullmatch(name)) is matches


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "*a", r"\p{Nope}", "[a-z&&[^b]]", "[a[b]]", r"\p", r"[\P{Digit}]", "a\\"]
)
def test_patterns_that_cannot_be_obeyed_are_refused(pattern):
    with pytest.raises(OptionError, match="option 'subscribePattern'"):
        _make(subscribePattern=pattern)


def test_exactly_one_strategy_must_be_named():
    with pytest.raises(OptionError, match="one of the options assign, subscribe, subscribePattern must be set"):
        _make()
    with pytest.raises(OptionError, match="only one"):
        _make(subscribe="a", assign='{"a":[0]}')
    with pytest.raises(OptionError, match="names no topic"):
        _make(subscribe=",")
