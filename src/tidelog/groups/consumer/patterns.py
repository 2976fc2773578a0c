"""Topic patterns of subscriptions, matched in time linear in pattern and name, whatever the pattern.

Kafka uses RE2 for the same reason: a pattern of ten characters can make Python's `re` run for years, so that one member
could stop the broker. Here a pattern becomes a nondeterministic automaton that runs all its states at once. It supports
literals, `.`, classes, escapes, groups, alternatives and repetitions; a pattern matches a name as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from tidelog.wire.errors import ApiError, ErrorCode

_REPEATS_MAX: Final = 255
_STATES_MAX: Final = 5_000
_DEPTH_MAX: Final = 50
_BUILDING_STEPS_MAX: Final = 50_000
"""Parts that are put together for one pattern: repetitions of nothing, such as `^{255}{255}`, add no state."""
_MATCHING_STEPS_MAX: Final = 60_000
"""States that are looked at for one pattern and all names, some 50 ms. What follows from them is remembered, in a few
megabytes, so that thousands of names take little more than the first. A pattern that has used them up matches no name
that would take more: a list of a thousand names needs fewer."""

Test = Callable[[str], bool]

_CLASSES: Final[dict[str, Test]] = {
    "d": str.isdecimal,
    "w": lambda char: char.isalnum() or char == "_",
    "s": str.isspace,
    "D": lambda char: not char.isdecimal(),
    "W": lambda char: not (char.isalnum() or char == "_"),
    "S": lambda char: not char.isspace(),
}


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a pattern matches; raises ApiError for an invalid pattern."""
    automaton = _compile(pattern)
    return [name for name in names if automaton.matches(name)]


def check_pattern(pattern: str) -> None:
    """Raise ApiError for an invalid pattern."""
    _compile(pattern)


@lru_cache(maxsize=32)
def _compile(pattern: str) -> _Automaton:
    return _Parser(pattern).parse()


class _Place:
    """States that the automaton is in at the same time, and where the characters lead that were met there."""

    __slots__ = ("after", "is_end", "states")

    def __init__(self, states: frozenset[int]) -> None:
        self.states = states
        self.is_end = 1 in states
        self.after: dict[str, _Place] = {}


class _Automaton:
    """States are numbers; a state either tests a character and goes to the next, or branches without reading one."""

    __slots__ = ("_places", "_steps", "forks", "tests")

    def __init__(self) -> None:
        self.tests: list[Test | None] = []
        self.forks: list[list[int]] = []
        self._places: dict[frozenset[int], _Place] = {}
        self._steps = 0

    def add(self, test: Test | None, *forks: int) -> int:
        if len(self.tests) >= _STATES_MAX:
            raise _refused(f"is too large: more than {_STATES_MAX} states")
        self.tests.append(test)
        self.forks.append(list(forks))
        return len(self.tests) - 1

    def matches(self, text: str) -> bool:
        """Whether the automaton gets from state 0, its start, to state 1, its end, over the whole text."""
        place = self._place({0})
        for char in text:
            after = place.after.get(char)
            if after is None:
                if self._steps >= _MATCHING_STEPS_MAX:
                    return False
                after = place.after[char] = self._step(place, char)
            if not after.states:
                return False
            place = after
        return place.is_end

    def _step(self, place: _Place, char: str) -> _Place:
        after: set[int] = set()
        for state in place.states:
            test = self.tests[state]
            if test is not None and test(char):
                after.update(self.forks[state])
        self._steps += len(place.states)
        return self._place(after)

    def _place(self, states: set[int]) -> _Place:
        """With the states that are reached from these without a character."""
        key = frozenset(states)
        found = self._places.get(key)
        if found is None:
            closure = self._closure(states)
            self._steps += len(closure)
            found = self._places[key] = _Place(frozenset(closure))
        return found

    def _closure(self, states: set[int]) -> set[int]:
        found = set(states)
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if self.tests[state] is None:
                for other in self.forks[state]:
                    if other not in found:
                        found.add(other)
                        waiting.append(other)
        return found


Build = Callable[[int], int]
"""Adds a part of the pattern in front of a state and returns where it begins."""


class _Parser:
    """Reads a pattern from left to right. Parts are functions, so that a repeated part can be added several times."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._depth = 0
        self._steps = 0
        self._automaton = _Automaton()

    def parse(self) -> _Automaton:
        automaton = self._automaton
        start, end = automaton.add(None), automaton.add(None)
        build = self._alternatives()
        if self._position < len(self._pattern):
            raise _refused(f"{self._pattern!r} has an unmatched ) at {self._position}")
        automaton.forks[start].append(build(end))
        return automaton

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > _BUILDING_STEPS_MAX:
            raise _refused("is too large: it repeats too much")

    def _peek(self) -> str:
        return self._pattern[self._position] if self._position < len(self._pattern) else ""

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise _refused(f"{self._pattern!r} ends too early")
        self._position += 1
        return char

    def _alternatives(self) -> Build:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._position += 1
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]

        def build(end: int) -> int:
            self._count(len(branches))
            return self._automaton.add(None, *[branch(end) for branch in branches])

        return build

    def _sequence(self) -> Build:
        parts: list[Build] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))

        def build(end: int) -> int:
            self._count(len(parts))
            for part in reversed(parts):
                end = part(end)
            return end

        return build

    def _repeated(self, part: Build) -> Build:
        while self._peek() in ("*", "+", "?", "{"):
            part = self._repeat(part, *self._bounds())
            if self._peek() == "?":  # lazy or greedy, the whole name matches or does not
                self._position += 1
        return part

    def _bounds(self) -> tuple[int, int | None]:
        char = self._take()
        if char != "{":
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
        end = self._pattern.find("}", self._position)
        low, comma, high = self._pattern[self._position : end].partition(",")
        if end < 0 or not low.isdecimal() or (high and not high.isdecimal()) or len(low + high) > 20:
            raise _refused(f"{self._pattern!r} has a {{ at {self._position - 1} that is not a repetition")
        self._position = end + 1
        least = int(low)
        most = int(high) if high else None if comma else least
        if least > _REPEATS_MAX or (most is not None and not least <= most <= _REPEATS_MAX):
            raise _refused(
                f"{self._pattern!r} repeats from {low} to {high or 'any'}, at most {_REPEATS_MAX} is allowed"
            )
        return least, most

    def _repeat(self, part: Build, least: int, most: int | None) -> Build:
        automaton = self._automaton

        def build(end: int) -> int:
            self._count(most or least)
            if most is None:
                loop = automaton.add(None, end)
                automaton.forks[loop].insert(0, part(loop))
                end = loop
            else:
                after = end
                for _ in range(most - least):
                    end = automaton.add(None, part(end), after)
            for _ in range(least):
                end = part(end)
            return end

        return build

    def _atom(self) -> Build:
        char = self._take()
        if char == "(":
            return self._group()
        if char == "[":
            return self._one(self._class())
        if char == ".":
            return self._one(lambda _: True)
        if char == "\\":
            return self._one(self._escape())
        if char in "^$":  # a name is matched as a whole anyway
            return lambda end: end
        if char in "*+?{":
            raise _refused(f"{self._pattern!r} repeats nothing at {self._position - 1}")
        return self._one(lambda other: other == char)

    def _one(self, test: Test) -> Build:
        return lambda end: self._automaton.add(test, end)

    def _group(self) -> Build:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise _refused(f"{self._pattern!r} is nested deeper than {_DEPTH_MAX}")
        if self._pattern.startswith("?:", self._position):
            self._position += 2
        elif self._peek() == "?":
            raise _refused(f"{self._pattern!r} has an unsupported kind of group at {self._position}")
        build = self._alternatives()
        if self._take() != ")":
            raise _refused(f"{self._pattern!r} has a ( that is not closed")
        self._depth -= 1
        return build

    def _escape(self) -> Test:
        char = self._take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char.isalnum():
            raise _refused(f"{self._pattern!r} has an unsupported escape \\{char}")
        return lambda other: other == char

    def _class(self) -> Test:
        is_negated = self._peek() == "^"
        self._position += is_negated
        tests: list[Test] = []
        while self._peek() != "]" or not tests:
            tests.append(self._class_part())
        self._position += 1
        return lambda char: any(test(char) for test in tests) is not is_negated

    def _class_part(self) -> Test:
        first = self._take()
        if first == "\\":
            return self._escape()
        if self._peek() == "-" and self._pattern[self._position + 1 : self._position + 2] not in ("", "]"):
            self._position += 1
            last = self._take()
            if last < first:
                raise _refused(f"{self._pattern!r} has the range {first}-{last}, which is empty")
            return lambda char: first <= char <= last
        return lambda char: char == first


def _refused(what: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"the topic pattern {what}")
