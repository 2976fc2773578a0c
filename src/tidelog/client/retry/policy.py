"""The policy for failed records, and what becomes of a record after a failure. Pure.

A record that failed for the n-th time waits in `<stem>.retry.<n>` for the n-th delay (the last one repeats where there
are fewer delays than attempts), and is a dead letter in `<stem>.dlq` when it has failed `attempts` times. Names and
headers are those of pipelines.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

from tidelog.client.durations import DurationError, milliseconds
from tidelog.client.errors import ClientConfigError
from tidelog.client.retry.headers import Header, HeaderError, Origin, Trail, decode, encode, strip
from tidelog.records.delayed import DELAY_HEADER, DELIVER_AT_HEADER

RETRY: Final = ".retry."
SERVED: Final = ".retry"
"""Ends the name of the topic that a retry service reads."""
PARKED: Final = ".retry.parked"
KEYS: Final = ".retry.keys"
DEAD: Final = ".dlq"

WAITS: Final = "WaitsForKey"
"""The error type of a record that has not failed."""

BROKER: Final = "broker"
TOPICS: Final = "topics"
SERVICE: Final = "service"
DELAYS: Final = ("10s", "1m", "10m")
_REDIS_SCHEMES: Final = ("redis://", "rediss://", "unix://")

_DELAY: Final = DELAY_HEADER.decode()
_DELAYS: Final = frozenset({_DELAY, DELIVER_AT_HEADER.decode()})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a failed record is tried again, how often, and where it waits.

    `delays` are texts such as `"10s"`, numbers of seconds or `timedelta`; `attempts` counts the first one, too, and is
    by default one more than there are delays. `store` is `"broker"` (Tidelog), `"topics"` (any Kafka cluster),
    `"service"` (a retry topic that `tidelog retry work` reads) or the URL of a Redis server. `dead_letter_on` are
    exceptions after which no other attempt is made. `topic` is the stem of topic names, by default the topic that was
    read. With `keep_order_by_key`, records wait behind a failed one of their key. With a service, `return_topic` is
    where records come back, by default the topic that was read.
    """

    delays: Sequence[str | float | timedelta] = DELAYS
    attempts: int | None = None
    dead_letters: str | None = None
    store: str = BROKER
    keep_order_by_key: bool = False
    dead_letter_on: tuple[type[Exception], ...] = ()
    topic: str | None = None
    return_topic: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.delays, str):
            raise ClientConfigError(f"delays={self.delays!r} is one text; give a list, such as ['10s', '1m']")
        if self.attempts is not None and self.attempts < 1:
            raise ClientConfigError(f"attempts={self.attempts} must be 1 or higher")
        if self.attempts is not None and self.attempts > 1 and not self.delays:
            raise ClientConfigError(f"attempts={self.attempts} needs delays: how long to wait before the next attempt")
        if self.is_redis and not self.store.startswith(_REDIS_SCHEMES):
            raise ClientConfigError(
                f"store={self.store!r} must be 'broker', 'topics', 'service' or the URL of a Redis server"
            )
        if self.keep_order_by_key and self.store not in (BROKER, TOPICS):
            raise ClientConfigError("keep_order_by_key=True needs store='broker' or 'topics'")
        if self.return_topic is not None and self.store != SERVICE:
            raise ClientConfigError(f"return_topic={self.return_topic!r} needs store='service'")
        self.delays_ms  # noqa: B018 - delays that are none are refused here

    @property
    def is_redis(self) -> bool:
        """Whether records wait in Redis."""
        return self.store not in (BROKER, TOPICS, SERVICE)

    @property
    def attempts_max(self) -> int:
        """After so many failures a record is a dead letter."""
        return len(self.delays) + 1 if self.attempts is None else self.attempts

    @property
    def delays_ms(self) -> tuple[int, ...]:
        """The delays that are used."""
        return tuple([_milliseconds(each) for each in self.delays])[: self.attempts_max - 1]


def _milliseconds(delay: str | float | timedelta) -> int:
    try:
        return milliseconds(timedelta(seconds=delay) if isinstance(delay, int | float) else delay)
    except (DurationError, OverflowError, ValueError) as error:
        raise ClientConfigError(f"delays: {error}") from None


def rung_of(attempts: int, attempts_max: int, delays: int) -> int | None:
    """The index of the delay after `attempts` failures; None if the record is a dead letter."""
    return None if attempts >= attempts_max or not delays else min(attempts, delays) - 1


class Forward(NamedTuple):
    """A record to be written because another one failed."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    delay_ms: int | None = None
    """How long it is to wait; None for records that do not."""
    trail: Trail | None = None


class Received(NamedTuple):
    """A record that was read, from its topic or from a retry topic: as it was first read, and its history."""

    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    trail: Trail | None

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return 1 if self.trail is None else self.trail.attempts + 1


@dataclass(frozen=True, slots=True)
class Ladder:
    """A policy with its topics named: what happens to the records that one group reads from topics of one stem."""

    policy: RetryPolicy
    group: str
    stem: str

    @property
    def retry_topics(self) -> tuple[str, ...]:
        """Topics that are read beside the application's: one for each delay; with a service, its return topic."""
        if self.policy.store == SERVICE:
            return () if self.policy.return_topic is None else (self.policy.return_topic,)
        return tuple(f"{self.stem}{RETRY}{number}" for number in range(1, len(self.policy.delays_ms) + 1))

    @property
    def served_topic(self) -> str | None:
        """The topic that a retry service reads; None without one."""
        return self.stem + SERVED if self.policy.store == SERVICE else None

    @property
    def dead_letters(self) -> str:
        """Where records end."""
        return self.policy.dead_letters or self.stem + DEAD

    @property
    def keys_topic(self) -> str:
        """Which keys have waiting records, if order is kept."""
        return self.stem + KEYS

    def after_failure(self, record: Received, error: Exception, now_ms: int) -> Forward:
        """The record to write after `error`: to the next retry topic, or a dead letter."""
        policy = self.policy
        trail = Trail(
            self.group, record.attempt, type(error).__name__, str(error) or repr(error), now_ms, record.origin,
            sequence=None if record.trail is None else record.trail.sequence,
        )  # fmt: skip
        rung = rung_of(trail.attempts, policy.attempts_max, len(policy.delays_ms))
        if rung is None or isinstance(error, policy.dead_letter_on):
            return self._forward(record, replace(trail, sequence=None), self.dead_letters, None)
        delay_ms = policy.delays_ms[rung]
        trail = replace(trail, due_ms=now_ms + delay_ms)
        if self.served_topic is None:
            return self._forward(record, trail, self.retry_topics[rung], delay_ms)
        trail = replace(trail, return_topic=policy.return_topic or record.origin.topic)
        return self._forward(record, trail, self.served_topic, delay_ms)

    def behind(self, record: Received, head_attempts: int, sequence: int, now_ms: int) -> Forward:
        """The record to write for one that waits behind another of its key, which has failed so often."""
        rung = min(head_attempts, len(self.policy.delays_ms)) - 1
        delay_ms = self.policy.delays_ms[rung]
        trail = Trail(
            self.group, record.attempt - 1, WAITS, "an earlier record of this key waits", now_ms, record.origin,
            now_ms + delay_ms, sequence,
        )  # fmt: skip
        return self._forward(record, trail, self.retry_topics[rung], delay_ms)

    def numbered(self, record: Received, forward: Forward, sequence: int) -> Forward:
        """A record that failed, as number `sequence` of its key."""
        assert forward.trail is not None, "made by after_failure"
        return self._forward(record, replace(forward.trail, sequence=sequence), forward.topic, forward.delay_ms)

    def _forward(self, record: Received, trail: Trail, topic: str, delay_ms: int | None) -> Forward:
        headers = (*record.headers, *encode(trail))
        if delay_ms is not None and self.policy.store == BROKER:
            headers = (*headers, (_DELAY, str(delay_ms).encode()))
        return Forward(topic, record.origin.partition, record.key, record.value, headers, delay_ms, trail)


def receive(
    place: Origin, key: bytes | None, value: bytes | None, headers: Iterable[Header], group: str, *, is_retry: bool
) -> Received | None:
    """A record that was read at `place`; None for a retry, by its topic or by its headers, that is not of `group`."""
    given = tuple(headers)
    try:
        trail = decode(given)
    except HeaderError:
        trail = None
    is_returned = trail is not None and trail.return_topic == place.topic
    if not is_retry and not is_returned:
        return Received(place, key, value, _without_delay(strip(given)), None)
    if trail is None or trail.pipeline != group:
        return None
    return Received(trail.origin, key, value, _without_delay(strip(given)), trail)


def _without_delay(headers: Iterable[Header]) -> tuple[Header, ...]:
    # A delay that is over must not delay the record in the next topic.
    return tuple([each for each in headers if each[0] not in _DELAYS])


def ladders(policy: RetryPolicy, group: str, topics: Iterable[str]) -> dict[str, Ladder]:
    """The ladder of each topic that is read."""
    return {topic: Ladder(policy, group, policy.topic or topic) for topic in topics}


def as_policy(given: Any) -> RetryPolicy:
    """A policy; the default one for None. Raises ClientConfigError for anything else."""
    if given is None:
        return RetryPolicy()
    if not isinstance(given, RetryPolicy):
        raise ClientConfigError(f"policy={given!r} must be a RetryPolicy")
    return given
