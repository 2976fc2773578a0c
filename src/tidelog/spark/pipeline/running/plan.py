"""What a pipeline would read and write, without running it: partitions, offsets, lag, sinks, checkpoint, policy.

Pure, except for `drained`, which queries the cluster. No Spark.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from tidelog.client.cluster import Cluster
from tidelog.client.durations import milliseconds, spoken
from tidelog.spark.pipeline.checks.survey import PartitionSpan, Survey, survey
from tidelog.spark.pipeline.definition.endpoints import Topic
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.definition.steps import is_fallible, name_of
from tidelog.spark.pipeline.failing.routing import Ladder, ladder_of
from tidelog.spark.pipeline.failing.source_options import READ_DEFAULTS
from tidelog.spark.pipeline.running.checkpoints import Position, is_local, read_positions

_LOOK_EVERY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class PlannedRead:
    """One partition: where reading would begin and where it ends now. `start` is None if only a run can find it."""

    topic: str
    partition: int
    start: int | None
    end: int
    why: str

    @property
    def lag(self) -> int | None:
        """How many offsets there are to read."""
        return None if self.start is None else max(0, self.end - self.start)


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a whole pipeline."""

    pipeline: str
    reads: tuple[PlannedRead, ...]
    other_sources: tuple[str, ...]
    steps: tuple[str, ...]
    sinks: tuple[str, ...]
    own_topics: tuple[tuple[str, str, bool], ...]
    """Name, meaning, and whether it is there already."""
    checkpoint: str
    last_batch: int | None
    checkpoint_note: str | None
    trigger: str
    output_mode: str
    parked_rows: int = 0
    """Rows that wait behind a failed row of their key."""

    @property
    def lag(self) -> int | None:
        """All partitions together, and parked rows; None if that of one is not known."""
        lags = [read.lag for read in self.reads]
        return None if None in lags else self.parked_rows + sum(lag for lag in lags if lag is not None)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        shown = asdict(self)
        shown["reads"] = [{**asdict(read), "lag": read.lag} for read in self.reads]
        shown["own_topics"] = [
            {"topic": name, "meaning": meaning, "exists": exists} for name, meaning, exists in self.own_topics
        ]
        return {**shown, "lag": self.lag}


def make_plan(pipeline: Pipeline, survey: Survey, position: Position | None) -> Plan:
    """The plan of a pipeline that has come as far as `position`."""
    ladder = ladder_of(pipeline)
    read_back = ladder.retry_topics if ladder else ()
    reads = [
        _read(pipeline, topic, partition, span, position, is_own=topic in read_back)
        for topic in (*survey.source_topics, *read_back)
        for partition, span in survey.there.get(topic, {}).items()
    ]
    others = [f"topic {name} (does not exist)" for name in survey.source_topics if not survey.has(name)]
    others += [] if isinstance(pipeline.source, Topic) and survey.source_topics else [str(pipeline.source)]
    others += [f"{name} = {source}" for name, source in pipeline.tables.items()]
    is_new = position is None and not is_local(pipeline.checkpoint_path)
    return Plan(
        pipeline=pipeline.name,
        reads=tuple(reads),
        other_sources=tuple(others),
        steps=tuple(step_text(step) for step in pipeline.steps),
        sinks=tuple(_sink_text(pipeline, survey)),
        own_topics=tuple((name, meaning, survey.has(name)) for name, meaning in ladder_topics(ladder)),
        checkpoint=pipeline.checkpoint_path,
        last_batch=None if position is None else position.batch_id,
        checkpoint_note="not on this machine: offsets are those of a new query" if is_new else None,
        trigger=spoken(milliseconds(pipeline.trigger)),
        output_mode=pipeline.output_mode,
        parked_rows=survey.parked_rows,
    )


def _read(
    pipeline: Pipeline, topic: str, partition: int, span: PartitionSpan, position: Position | None, *, is_own: bool
) -> PlannedRead:
    if position is not None and topic in position.offsets:
        start = position.offsets[topic].get(partition)
        if start is not None:
            return PlannedRead(topic, partition, start, span.end, "checkpoint")
        return PlannedRead(topic, partition, span.first, span.end, "new partition")
    if is_own or position is not None:
        return PlannedRead(topic, partition, span.first, span.end, "earliest")
    options = {name.lower(): value for name, value in getattr(pipeline.source, "options", {}).items()}
    others = [name for name in options if name.startswith("starting") and name != "startingoffsets"]
    where = options.get("startingoffsets", READ_DEFAULTS["startingOffsets"]).strip().lower()
    if others or where not in ("earliest", "latest"):
        return PlannedRead(topic, partition, None, span.end, others[0] if others else "startingOffsets")
    start = span.first if where == "earliest" else span.end
    return PlannedRead(topic, partition, start, span.end, where)


def _sink_text(pipeline: Pipeline, survey: Survey) -> list[str]:
    texts = []
    for sink in pipeline.sinks:
        text = str(sink)
        for name in sink.names if isinstance(sink, Topic) else ():
            count = len(survey.there.get(name, ()))
            text += f" ({count} partitions)" if count else " (does not exist)"
        texts.append(text)
    return texts


def step_text(step: object) -> str:
    """A step for people."""
    return f"{name_of(step)} (rows can fail)" if is_fallible(step) else name_of(step)


def ladder_topics(ladder: Ladder | None) -> list[tuple[str, str]]:
    """The topics of a policy and what each is for."""
    if ladder is None:
        return []
    waits = [
        (topic, f"failed rows wait {spoken(delay_ms)}")
        for topic, delay_ms in zip(ladder.retry_topics, ladder.delays_ms, strict=True)
    ]
    if ladder.parked_topic is not None and ladder.keys_topic is not None:
        waits.append((ladder.parked_topic, "rows wait behind a failed row of their key"))
        waits.append((ladder.keys_topic, "which keys have rows that wait"))
    return [*waits, (ladder.dead_letters, f"dead letters, after {ladder.attempts_max} attempts")]


def policy_text(pipeline: Pipeline) -> str:
    """The policy in a sentence."""
    ladder = ladder_of(pipeline)
    if ladder is None:
        return "a row that fails stops the pipeline"
    if not ladder.delays_ms:
        return f"a row that fails goes to {ladder.dead_letters}"
    delays = ", ".join(spoken(delay) for delay in ladder.delays_ms)
    order = "; rows of one key stay in order" if ladder.keeps_order else ""
    return f"{ladder.attempts_max} attempts, after {delays}, then {ladder.dead_letters}{order}"


def drained(pipeline: Pipeline, servers: str, finds_nothing: Callable[[], bool]) -> Callable[[], bool]:
    """A function that returns whether every query has processed everything. `finds_nothing` checks the queries.

    Their checkpoints must be on this machine.
    """
    look_at = time.monotonic()
    connection = pipeline.connection(servers)

    def is_drained() -> bool:
        nonlocal look_at
        if time.monotonic() < look_at:
            return False
        look_at = time.monotonic() + _LOOK_EVERY_S
        position = read_positions(pipeline.checkpoint_paths)
        with Cluster(connection.client()) as cluster:
            lag = make_plan(pipeline, survey(pipeline, cluster), position).lag
        # A query that starts at a time has no lag before its first batch, which never comes if there is no such record.
        return lag == 0 if lag is not None else finds_nothing()

    return is_drained
