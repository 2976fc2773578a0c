"""Which partitions a source reads: named ones, those of named topics, or those of topics that match a pattern.

Patterns are Java's and match any part of a name, as the official connector's do. Pure; `settings` makes strategies and
`cluster_view` asks them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.client.types import TopicPartition
from tidelog.spark.options import OptionError, Options
from tidelog.spark.source.offsets import parse_assignment

OPTIONS: Final = ("assign", "subscribe", "subscribePattern")

# Topic names are ASCII, so Java's classes for them can be spelled out.
_PROPERTIES: Final = {
    "alpha": "a-zA-Z",
    "lower": "a-z",
    "upper": "A-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "punct": r"!-/:-@\[-`{-~",
    "isalphabetic": "a-zA-Z",
    "isdigit": "0-9",
    "l": "a-zA-Z",
    "lu": "A-Z",
    "ll": "a-z",
    "n": "0-9",
    "nd": "0-9",
}


class TopicPartitions(Protocol):
    """One topic, as strategies see it."""

    @property
    def is_internal(self) -> bool: ...

    @property
    def partitions(self) -> Sequence[int]: ...


class Strategy(Protocol):
    """One of the three."""

    @property
    def topics(self) -> tuple[str, ...] | None:
        """The topics to ask the cluster about; None for all."""

    def choose(self, found: Mapping[str, TopicPartitions]) -> list[TopicPartition]:
        """The partitions to read, among those of the topics that were found."""

    def missing(self, found: Mapping[str, TopicPartitions]) -> list[str]:
        """What is named, and was not found."""


@dataclass(frozen=True, slots=True)
class Assign:
    """Exactly these partitions."""

    partitions: tuple[TopicPartition, ...]

    @property
    def topics(self) -> tuple[str, ...] | None:
        return tuple(sorted({each.topic for each in self.partitions}))

    def choose(self, found: Mapping[str, TopicPartitions]) -> list[TopicPartition]:
        return [
            each for each in self.partitions if each.topic in found and each.partition in found[each.topic].partitions
        ]

    def missing(self, found: Mapping[str, TopicPartitions]) -> list[str]:
        there = set(self.choose(found))
        return [f"partition {each}" for each in self.partitions if each not in there]


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of these topics."""

    names: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...] | None:
        return self.names

    def choose(self, found: Mapping[str, TopicPartitions]) -> list[TopicPartition]:
        return _all_of({name: found[name] for name in self.names if name in found})

    def missing(self, found: Mapping[str, TopicPartitions]) -> list[str]:
        return [f"topic {name!r}" for name in self.names if name not in found]


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics in whose names the pattern is found; internal topics do not count."""

    pattern: str

    @property
    def topics(self) -> tuple[str, ...] | None:
        return None

    def choose(self, found: Mapping[str, TopicPartitions]) -> list[TopicPartition]:
        matches = compile_java(self.pattern).search
        return _all_of({name: topic for name, topic in found.items() if not topic.is_internal and matches(name)})

    def missing(self, found: Mapping[str, TopicPartitions]) -> list[str]:  # noqa: ARG002 - names nothing
        return []


def make_strategy(options: Options) -> Strategy:
    """The strategy in the options. Raises OptionError unless there is exactly one."""
    name, text = options.exactly_one_of(OPTIONS)
    if name == "assign":
        return Assign(parse_assignment(name, text))
    if name == "subscribe":
        names = tuple(sorted({each.strip() for each in text.split(",")} - {""}))
        if not names:
            raise OptionError(f"option 'subscribe' is {text!r}: it names no topic")
        return Subscribe(names)
    compile_java(text)
    return SubscribePattern(text)


def compile_java(pattern: str) -> re.Pattern[str]:
    """A pattern of `java.util.regex` in Python's words. Raises OptionError for what Python cannot say."""
    try:
        return re.compile(_translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise OptionError(f"option 'subscribePattern' is {pattern!r}, which is not a pattern: {error}") from None


def _all_of(topics: Mapping[str, TopicPartitions]) -> list[TopicPartition]:
    return sorted(TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions)


def _translated(pattern: str) -> str:
    """Java's spelling made Python's: quotes, named groups, classes by name. Everything else is common to both."""
    out: list[str] = []
    position, in_class = 0, False
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            text, position = _escape(pattern, position, in_class)
            out.append(text)
            continue
        if in_class and (char == "[" or pattern.startswith("&&", position)):
            raise OptionError(
                f"option 'subscribePattern' is {pattern!r}: classes inside classes are not supported; "
                "write the characters out, or use alternatives"
            )
        if char == "[":
            # A bracket right after the opening, or after its ^, is an ordinary character in Python, not in Java.
            in_class = True
        elif char == "]" and in_class:
            in_class = False
        elif pattern.startswith("(?<", position) and pattern[position + 3 : position + 4] not in ("=", "!"):
            out.append("(?P<")
            position += 3
            continue
        out.append(char)
        position += 1
    return "".join(out)


def _escape(pattern: str, position: int, in_class: bool) -> tuple[str, int]:
    """What the escape at `position` is in Python, and where the pattern goes on."""
    following = pattern[position + 1 : position + 2]
    if following == "Q":
        end = pattern.find("\\E", position + 2)
        quoted = pattern[position + 2 : end if end >= 0 else len(pattern)]
        return re.escape(quoted), end + 2 if end >= 0 else len(pattern)
    if following == "z":
        return r"\Z", position + 2
    if following == "Z":
        # Before a last line end, in Java; a name has none.
        return r"\Z", position + 2
    if following == "k" and pattern.startswith("<", position + 2):
        end = pattern.find(">", position)
        return f"(?P={pattern[position + 3 : end]})", end + 1 if end >= 0 else len(pattern)
    if following in ("p", "P"):
        return _property(pattern, position, in_class)
    return pattern[position : position + 2], position + 2


def _property(pattern: str, position: int, in_class: bool) -> tuple[str, int]:
    end = pattern.find("}", position) if pattern.startswith("{", position + 2) else position + 2
    name = pattern[position + 2 : end + 1].strip("{}")
    chars = _PROPERTIES.get(name.lower())
    if chars is None or end < 0 or (in_class and pattern[position + 1] == "P"):
        raise OptionError(
            f"option 'subscribePattern' is {pattern!r}: {pattern[position : end + 1]!r} is not supported in it"
        )
    if in_class:
        return chars, end + 1
    return f"[{'^' if pattern[position + 1] == 'P' else ''}{chars}]", end + 1
