"""Where a failed row goes next: the n-th retry topic, or the dead letters. Pure.

A row that failed for the n-th time waits in `<stem>.retry.<n>` (in the last of them when there are fewer delays than
attempts). All records of one retry topic wait equally long, so that a topic is due from its front, record by record,
and a reader only needs to know how old a record must be.
"""

from dataclasses import dataclass

from tidelog.client.durations import milliseconds
from tidelog.client.retry.policy import DEAD, KEYS, PARKED, RETRY, rung_of
from tidelog.spark.pipeline.definition.endpoints import Topic
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.definition.policy import DeadLetters


@dataclass(frozen=True, slots=True)
class Rung:
    """Where a failed row goes, and how long it stays there; dead letters stay for good."""

    topic: str
    delay_ms: int | None

    @property
    def is_dead(self) -> bool:
        """Whether this is the end."""
        return self.delay_ms is None


@dataclass(frozen=True, slots=True)
class Ladder:
    """A policy with all its topics named."""

    retry_topics: tuple[str, ...]
    delays_ms: tuple[int, ...]
    attempts_max: int
    dead_letters: str
    parked_topic: str | None = None
    keys_topic: str | None = None
    retention_ms: int | None = None
    """How long retry topics keep what they hold; None: for ever."""

    @property
    def keeps_order(self) -> bool:
        """Whether rows wait behind a failed row of their key."""
        return self.parked_topic is not None

    @property
    def read_back(self) -> tuple[str, ...]:
        """The topics the pipeline reads besides its source: retry topics in its stream, parked rows by offsets."""
        return self.retry_topics if self.parked_topic is None else (*self.retry_topics, self.parked_topic)

    @property
    def own_topics(self) -> tuple[str, ...]:
        """Every topic that exists because of the policy."""
        keys = () if self.keys_topic is None else (self.keys_topic,)
        return (*self.read_back, *keys, self.dead_letters)

    def route(self, attempts: int, *, retry: bool = True) -> Rung:
        """Where a row goes that has now failed `attempts` times."""
        rung = rung_of(attempts, self.attempts_max, len(self.delays_ms)) if retry else None
        if rung is None:
            return Rung(self.dead_letters, None)
        return Rung(self.retry_topics[rung], self.delays_ms[rung])


def ladder_of(pipeline: Pipeline) -> Ladder | None:
    """The pipeline's policy with its topics; None if a failing row stops it. Raises DurationError for bad delays."""
    policy = pipeline.on_failure
    if policy is None:
        return None
    stem = _stem(pipeline)
    if isinstance(policy, DeadLetters):
        return Ladder((), (), 1, policy.topic or stem + DEAD)
    stem = policy.topic or stem
    delays_ms = tuple(milliseconds(delay) for delay in policy.delays)
    attempts_max = len(delays_ms) + 1 if policy.attempts is None else policy.attempts
    used = delays_ms[: max(0, attempts_max - 1)]
    keeps_order = policy.keep_order_by_key and bool(used)
    return Ladder(
        tuple(f"{stem}{RETRY}{number}" for number in range(1, len(used) + 1)),
        used,
        attempts_max,
        policy.dead_letters or stem + DEAD,
        stem + PARKED if keeps_order else None,
        stem + KEYS if keeps_order else None,
        None if policy.retention is None else milliseconds(policy.retention),
    )


def _stem(pipeline: Pipeline) -> str:
    source = pipeline.source
    if isinstance(source, Topic) and len(source.names) == 1:
        return source.names[0]
    return pipeline.name
