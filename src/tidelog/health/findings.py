"""A finding: what is wrong, how urgent it is, and what to do."""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

NAMES_MAX: Final = 5


class Level(IntEnum):
    """How urgent a finding is."""

    NOTE = 0
    """Nothing is wrong yet."""
    WARNING = 1
    """The next failure will be felt, or something is slower or less safe than it should be."""
    BAD = 2
    """Clients cannot write or read something, or data is in danger."""


class Finding(NamedTuple):
    """One thing that is wrong."""

    level: Level
    subject: str
    """What it is about: `topic orders`, `broker 2`, `group billing`."""
    text: str
    """A clause if the subject is topics, else mostly a predicate: what the subject has, is or does."""
    advice: str
    topics: tuple[str, ...] = ()
    """The topics that the subject names, the first few."""

    @property
    def clause(self) -> str:
        """The finding as a part of a sentence; the texts of `METADATA_CHECKS` are written for it."""
        return self.text if self.topics else f"{self.subject} {self.text}"


def about_topics(level: Level, topics: Iterable[str], text: str, advice: str) -> Finding:
    """A finding about some topics."""
    listed = sorted(topics)
    return Finding(level, f"topics {some_of(listed)}", text, advice, tuple(listed[:NAMES_MAX]))


def worst(findings: Iterable[Finding]) -> Level:
    """The level of the most urgent finding; NOTE if there is none."""
    return max((each.level for each in findings), default=Level.NOTE)


def some_of(names: Iterable[str] | Iterable[int]) -> str:
    """The first names or numbers, and how many more there are."""
    listed = [str(each) for each in sorted(names)]
    shown = ", ".join(listed[:NAMES_MAX])
    return shown if len(listed) <= NAMES_MAX else f"{shown} and {len(listed) - NAMES_MAX} more"


def counted(number: int, noun: str, verb: str = "", plural_verb: str = "") -> str:
    """`1 partition has`, `12 partitions have`."""
    chosen = verb if number == 1 else plural_verb
    return f"{number:,} {noun}{'' if number == 1 else 's'}" + (f" {chosen}" if chosen else "")
