"""Where a source begins or ends, as its options say it: a word, offsets, or times. Pure.

`settings` reads them, `resolve` makes offsets of them. A time for everything wins over times by partition, and these
over offsets, as in the official connector.
"""

from dataclasses import dataclass
from typing import Final

from tidelog.client.types import TopicPartition
from tidelog.spark.options import OptionError, Options
from tidelog.spark.source.offsets import EARLIEST, LATEST, OFFSET_MAX, parse_offsets, parse_timestamps


@dataclass(frozen=True, slots=True)
class Earliest:
    """The first offset there is."""


@dataclass(frozen=True, slots=True)
class Latest:
    """The end: after the last record that may be read."""


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Offsets by partition, -1 for the latest and -2 for the earliest."""

    offsets: dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after a time, in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after a time of each partition."""

    timestamps_ms: dict[TopicPartition, int]


Limit = Earliest | Latest | AtOffsets | AtTime | AtTimes

_WORDS: Final[dict[str, Limit]] = {"earliest": Earliest(), "latest": Latest()}


def read_limit(options: Options, word: str, default: Limit) -> Limit:
    """What `startingTimestamp`, `startingOffsetsByTimestamp` and `startingOffsets` say, for the `word` starting."""
    global_time, times, offsets = (f"{word}{rest}" for rest in ("Timestamp", "OffsetsByTimestamp", "Offsets"))
    time_ms = options.number(global_time, at_least=0)
    if time_ms is not None:
        if time_ms > OFFSET_MAX:
            raise OptionError(f"option {global_time!r} is {time_ms}: it must be a time in milliseconds")
        return AtTime(time_ms)
    text = options.text(times)
    if text is not None:
        return AtTimes(parse_timestamps(times, text))
    text = options.text(offsets)
    if text is None:
        return default
    return _WORDS.get(text.lower()) or AtOffsets(_parsed(offsets, text))


def _parsed(option: str, text: str) -> dict[TopicPartition, int]:
    if not text.startswith("{"):
        raise OptionError(
            f'option {option!r} is {text!r}: it must be earliest, latest or JSON such as {{"t":{{"0":5}}}}'
        )
    return parse_offsets(option, text)


def check_batch_limits(starting: Limit, ending: Limit) -> None:
    """Refuse what a batch query cannot do: begin at the end, or end at the beginning."""
    if isinstance(starting, Latest):
        raise OptionError(
            "option 'startingOffsets' is latest: a batch query would read nothing; use earliest or offsets"
        )
    if isinstance(ending, Earliest):
        raise OptionError("option 'endingOffsets' is earliest: a batch query would read nothing; use latest or offsets")
    for limit, option, forbidden, word in (
        (starting, "startingOffsets", LATEST, "latest"),
        (ending, "endingOffsets", EARLIEST, "earliest"),
    ):
        if isinstance(limit, AtOffsets):
            for partition, offset in limit.offsets.items():
                if offset == forbidden:
                    raise OptionError(f"option {option!r} has {offset} ({word}) for {partition}: not in a batch query")
