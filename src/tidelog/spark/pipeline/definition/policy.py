"""The policy for rows that fail: retry later, up to a number of attempts, then write a dead letter. Pure.

A policy is plain data; `routing` turns it into topics and decisions, `checks` finds mistakes in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.client.durations import Duration


@dataclass(frozen=True, slots=True)
class RetryLadder:
    """Failed rows wait in `<topic>.retry.<n>` for the n-th delay and are tried again; after the last they are dead.

    `attempts` counts the first try too; left out, every delay is used once. With more attempts than delays the last
    delay repeats. `topic` is the stem of the retry topics' names (default: the source topic).

    `retention` is how long the retry topics that are made keep a record, done or not; left out, for ever.

    With `keep_order_by_key`, rows that come after a failed row of their key wait behind it; rows without a key and rows
    of other keys pass.
    """

    delays: Sequence[Duration] = ("10s", "1m", "10m")
    attempts: int | None = None
    dead_letters: str | None = None
    keep_order_by_key: bool = False
    topic: str | None = None
    retention: Duration | None = None


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """Failed rows go to the dead-letter topic at once (default: `<source topic>.dlq`)."""

    topic: str | None = None


Policy = RetryLadder | DeadLetters
