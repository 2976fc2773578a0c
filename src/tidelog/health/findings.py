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
    advice: str


def worst(findings: Iterable[Finding]) -> Level:
    """The level of the most urgent finding; NOTE if there is none."""
    return max((each.level for each in findings), default=Level.NOTE)


def some_of(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    listed = sorted(names)
    shown = ", ".join(listed[:NAMES_MAX])
    return shown if len(listed) <= NAMES_MAX else f"{shown} and {len(listed) - NAMES_MAX} more"
