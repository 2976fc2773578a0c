"""Where to read from when there is no position, or one the log does not reach: `auto.offset.reset`."""

import re
from enum import Enum
from typing import Final, NamedTuple

from tidelog.client.errors import ClientConfigError

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1

_DURATION: Final = re.compile(r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII)
_UNITS_MS: Final = (86_400_000, 3_600_000, 60_000, 1000)
_BY_DURATION: Final = "by_duration:"


class ResetKind(Enum):
    """The four policies."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


class OffsetReset(NamedTuple):
    """A policy, and how far back it goes (KIP-1106)."""

    kind: ResetKind
    duration_ms: int = 0

    def timestamp(self, wall_ms: int) -> int:
        """What to ask ListOffsets for."""
        if self.kind is ResetKind.EARLIEST:
            return EARLIEST_TIMESTAMP
        if self.kind is ResetKind.LATEST:
            return LATEST_TIMESTAMP
        return max(0, wall_ms - self.duration_ms)

    @property
    def is_none(self) -> bool:
        """Whether an error is raised instead."""
        return self.kind is ResetKind.NONE


EARLIEST: Final = OffsetReset(ResetKind.EARLIEST)
LATEST: Final = OffsetReset(ResetKind.LATEST)
NONE: Final = OffsetReset(ResetKind.NONE)


def parse_offset_reset(text: str) -> OffsetReset:
    """The policy that `auto.offset.reset` names: earliest, latest, none or by_duration:P1DT12H."""
    word = text.strip()
    if word.lower() in ("earliest", "latest", "none"):
        return OffsetReset(ResetKind(word.lower()))
    if word.lower().startswith(_BY_DURATION):
        try:
            return OffsetReset(ResetKind.BY_DURATION, parse_duration_ms(word[len(_BY_DURATION) :]))
        except ValueError as error:
            raise ClientConfigError(f"auto.offset.reset={text!r}: {error}") from None
    raise ClientConfigError(f"auto.offset.reset={text!r} must be earliest, latest, none or by_duration:PnDTnHnMn.nS")


def parse_duration_ms(text: str) -> int:
    """Milliseconds of an ISO 8601 duration of days and smaller units, as Java's Duration prints it: P1DT2H3M4.5S."""
    found = _DURATION.fullmatch(text.strip().upper())
    if found is None or not any(found.groups()):
        raise ValueError(f"{text!r} is not a duration such as P1D, PT2H or P1DT2H3M4.5S")
    return round(sum(float(amount or 0) * unit_ms for amount, unit_ms in zip(found.groups(), _UNITS_MS, strict=True)))
