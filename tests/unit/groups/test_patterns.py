"""Topic patterns: what they match, what they refuse, and that none of them takes long."""

from __future__ import annotations

import time

import pytest

from tidelog.groups.consumer.patterns import check_pattern, matching
from tidelog.wire.errors import ApiError, ErrorCode


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("abc", ["abc"], ["ab", "abcd", "xabc"]),
        ("^abc$", ["abc"], ["abcd"]),
        ("a.*", ["a", "a-b.c"], ["ba"]),
        ("a|bc?", ["a", "b", "bc"], ["ab", "c"]),
        ("(a|b)+c", ["ac", "babc"], ["c"]),
        ("(?:ab){2}", ["abab"], ["ab", "ababab"]),
        ("a{2,3}", ["aa", "aaa"], ["a", "aaaa"]),
        ("a{2,}", ["aa", "aaaaa"], ["a"]),
        ("a{0}b", ["b"], ["ab"]),
        ("[a-c_.]+", ["a_b.c"], ["d"]),
        ("[^0-9]*", ["abc", ""], ["a1"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        (r"\d+\.\w*", ["12.ab_3"], ["12xab"]),
        (r"\S\s\D\W", ["a x-"], ["a x9"]),
        (r"[\d_]+", ["1_2"], ["a"]),
        ("a+?b*?", ["a", "aab"], ["b"]),
        ("", [""], ["a"]),
    ],
)
def test_patterns_match_whole_names(pattern: str, yes: list[str], no: list[str]) -> None:
    assert matching(pattern, [*yes, *no]) == yes


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[",
        "[a",
        "[z-a]",
        "*",
        "+a",
        "a{",
        "a{x}",
        "a{2,1}",
        "a{999}",
        "(?=a)",
        "\\",
        r"\b",
        "(" * 60,
        "((a{99}){99}){99}",
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ApiError) as caught:
        check_pattern(pattern)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_patterns_that_ruin_backtracking_are_harmless() -> None:
    """Each of these keeps Python's own `re` busy for longer than anybody waits."""
    name = "a" * 249
    for pattern in ("(a+)+b", "(a|a)*b", "(a*)*b", "(.*)*(.*)*b", "(a?){100}a{100}b"):
        assert matching(pattern, [name]) == []


@pytest.mark.parametrize(
    "pattern",
    [
        "^" + "{255}" * 8,
        "()" + "{255}" * 8,
        f"({'^' * 5000}a)" + "{70}{70}",
        f"({'|' * 5000})" + "{70}{70}",
        "a{" + "9" * 5000 + "}",
    ],
)
def test_a_pattern_that_repeats_nothing_without_end_is_refused_at_once(pattern: str) -> None:
    """Such a pattern has few states, or none, and would be put together for ever while nobody else is served."""
    start = time.perf_counter()
    with pytest.raises(ApiError) as refused:
        check_pattern(pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    "pattern", [".*" * 1600, "(.*){255}{6}", "(" + "|".join(f".*[a-{end}].{{40}}" for end in "bcdefghijklm") + ")"]
)
def test_a_pattern_with_thousands_of_states_at_once_takes_no_longer_for_many_names(pattern: str) -> None:
    names = [f"{number:x}".rjust(200, "abcdefghijklmnop"[number % 16]) for number in range(2000)]
    start = time.perf_counter()
    matching(pattern, names)
    assert time.perf_counter() - start < 10


def test_a_list_of_a_thousand_names_is_a_pattern() -> None:
    names = [f"a{number}" for number in range(1000)]
    others = [f"a{number}" for number in range(1000, 3000)]
    assert matching("|".join(names), [*names, *others]) == names
