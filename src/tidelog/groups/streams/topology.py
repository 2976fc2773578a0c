"""The topology of an application, and what its topics have to be.

A topology names the topics that each subtopology reads, and the internal topics that carry records between
subtopologies (repartition topics) and hold their state (changelogs). `configure` finds out, out of the topics that are
there, how many partitions each internal topic has to have and so how many tasks each subtopology has, which internal
topics have to be created, and why the application cannot run yet.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.groups.streams.schemas import TopologyValue
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.streams_group_heartbeat import Subtopology, TopicInfo

_LISTED_MAX: Final = 3


class StatusCode(IntEnum):
    """What StreamsGroupHeartbeat tells members about their group."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Fault(NamedTuple):
    """Why an application cannot run."""

    code: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    """A topic that the application needs and the broker creates."""

    name: str
    partition_count: int
    replication_factor: int
    """-1 for the broker's default."""
    overrides: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with the numbers that follow from the topics."""

    task_count: int
    is_stateful: bool
    repartition_sources: Mapping[str, InternalTopic]
    changelogs: Mapping[str, InternalTopic]


@dataclass(frozen=True, slots=True)
class Configured:
    """A topology beside the topics of the cluster. Without subtopologies if their numbers cannot be found out."""

    subtopologies: Mapping[str, ConfiguredSubtopology]
    fault: Fault | None = None
    missing: tuple[InternalTopic, ...] = ()

    @property
    def is_ready(self) -> bool:
        return self.fault is None


class Topology:
    """A topology as its record has it."""

    __slots__ = ("epoch", "subtopologies", "subtopology_of", "value")

    def __init__(self, value: TopologyValue) -> None:
        self.value = value
        self.epoch = value.epoch
        self.subtopologies: Mapping[str, Subtopology] = {
            each.subtopology_id: each for each in sorted(value.subtopologies, key=lambda each: each.subtopology_id)
        }
        self.subtopology_of: Mapping[str, str] = {
            topic: each.subtopology_id for each in value.subtopologies for topic in source_topics(each)
        }
        """The subtopology that reads a topic."""

    def is_like(self, other: Topology) -> bool:
        """Whether both are one topology; the order of subtopologies does not matter."""
        return self.epoch == other.epoch and self.subtopologies == other.subtopologies

    def required_topics(self) -> set[str]:
        """Every topic that has to be there before the application runs."""
        return {
            topic for each in self.subtopologies.values() for topic in (*source_topics(each), *_names_of_state(each))
        }


def source_topics(subtopology: Subtopology) -> Iterator[str]:
    """What a subtopology reads."""
    yield from subtopology.source_topics
    for info in subtopology.repartition_source_topics:
        yield info.name


def _names_of_state(subtopology: Subtopology) -> Iterator[str]:
    return (info.name for info in subtopology.state_changelog_topics)


class _FaultError(Exception):
    def __init__(self, code: StatusCode, detail: str) -> None:
        self.fault = Fault(code, detail)


PartitionCountOf = Callable[[str], int | None]
"""How many partitions a topic has; None if there is no such topic."""


def configure(topology: Topology, partition_count_of: PartitionCountOf) -> Configured:
    """Compare a topology with the topics. Raises ApiError for one that can never run."""
    try:
        counts = _Counts(topology, partition_count_of).decide()
        subtopologies = {name: _configured(each, counts) for name, each in topology.subtopologies.items()}
        missing = _missing(subtopologies.values(), partition_count_of)
    except _FaultError as error:
        return Configured({}, error.fault)
    if not missing:
        return Configured(subtopologies)
    detail = f"Internal topics are missing: {summary(topic.name for topic in missing)}"
    return Configured(subtopologies, Fault(StatusCode.MISSING_INTERNAL_TOPICS, detail), missing)


def summary(names: Iterable[str]) -> str:
    """The first names, and how many more there are."""
    listed = list(names)
    text = ", ".join(listed[:_LISTED_MAX])
    return text if len(listed) <= _LISTED_MAX else f"{text} and {len(listed) - _LISTED_MAX} additional topics"


class _Counts:
    """The partitions of all topics of a topology, whether they are there or have to be created."""

    def __init__(self, topology: Topology, partition_count_of: PartitionCountOf) -> None:
        self._subtopologies = topology.subtopologies.values()
        self._partition_count_of = partition_count_of
        self._decided: dict[str, int] = {}
        self._internal = {name for each in self._subtopologies for name in _names(each.repartition_source_topics)}

    def decide(self) -> dict[str, int]:
        """The number for every source topic and every internal topic. Raises `_FaultError` and ApiError."""
        self._check_sources()
        fixed = {
            info.name: info.partitions
            for each in self._subtopologies
            for info in each.repartition_source_topics
            if info.partitions
        }
        self._decided.update(fixed)
        self._follow_repartitions()
        for subtopology in self._subtopologies:
            for group in _copartition_groups(subtopology):
                self._copartition(group, fixed)
        for subtopology in self._subtopologies:
            count = self._most(subtopology)
            self._decided.update(dict.fromkeys(_names_of_state(subtopology), count))
        sources = {name: self._count(name) for each in self._subtopologies for name in each.source_topics}
        return {**sources, **self._decided}

    def _check_sources(self) -> None:
        names = {name for each in self._subtopologies for name in each.source_topics}
        missing = sorted(name for name in names if self._partition_count_of(name) is None)
        if missing:
            detail = f"Source topics {summary(missing)} are missing."
            raise _FaultError(StatusCode.MISSING_SOURCE_TOPICS, detail)

    def _follow_repartitions(self) -> None:
        """A repartition topic has as many partitions as the widest input of the subtopology that writes to it.

        Subtopologies are looked at once all their inputs are known; in a loop, once one of them is.
        """
        undecided = {
            each.subtopology_id: {name for name in _names(each.repartition_source_topics) if name not in self._decided}
            for each in self._subtopologies
        }
        readers: dict[str, list[Subtopology]] = {}
        for each in self._subtopologies:
            for name in undecided[each.subtopology_id]:
                readers.setdefault(name, []).append(each)
        ready = [each for each in self._subtopologies if not undecided[each.subtopology_id]]
        partly = [each for each in self._subtopologies if undecided[each.subtopology_id] and self._widest(each)]
        done: set[str] = set()
        while ready or partly:
            subtopology = ready.pop() if ready else partly.pop()
            if subtopology.subtopology_id in done:
                continue
            done.add(subtopology.subtopology_id)
            count = self._widest(subtopology)
            for sink in subtopology.repartition_sink_topics:
                if count is None or sink in self._decided:
                    continue
                self._decided[sink] = count
                for reader in readers.get(sink, ()):
                    undecided[reader.subtopology_id].discard(sink)
                    (partly if undecided[reader.subtopology_id] else ready).append(reader)
        if any(sink not in self._decided for each in self._subtopologies for sink in each.repartition_sink_topics):
            raise ApiError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "Failed to compute number of partitions for all repartition topics. There may be loops in the "
                "topology that cannot be resolved.",
            )
        if any(name not in self._decided for name in self._internal):
            raise ApiError(
                ErrorCode.STREAMS_INVALID_TOPOLOGY,
                "Failed to compute number of partitions for all repartition topics, because a repartition source "
                "topic is never used as a sink topic.",
            )

    def _widest(self, subtopology: Subtopology) -> int | None:
        """The most partitions of the inputs that are known. Of repartition topics only what was decided counts."""
        found = [self._partition_count_of(name) for name in subtopology.source_topics]
        found += [self._decided.get(name) for name in _names(subtopology.repartition_source_topics)]
        return max((count for count in found if count is not None), default=None)

    def _copartition(self, topics: AbstractSet[str], fixed: Mapping[str, int]) -> None:
        """Topics that are joined have equally many partitions: repartition topics follow the others."""
        external = {name: self._count(name) for name in sorted(topics - self._internal)}
        inner = {name: self._count(name) for name in sorted(topics & self._internal)}
        if external:
            count = _equal(external)
        elif fixed_here := {name: count for name, count in inner.items() if name in fixed}:
            count = _equal(fixed_here)
        else:
            count = max(inner.values())
        for name in inner:
            if name in fixed and fixed[name] != count:
                detail = (
                    f"Number of partitions [{fixed[name]}] of repartition topic [{name}] doesn't match number of "
                    f"partitions [{count}] of the source topic."
                )
                raise _FaultError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
            self._decided[name] = count

    def _most(self, subtopology: Subtopology) -> int:
        counts = [self._count(name) for name in source_topics(subtopology)]
        if not counts:
            text = f"No source topics found for subtopology {subtopology.subtopology_id}"
            raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
        return max(counts)

    def _count(self, name: str) -> int:
        """Of a topic that is there its own number counts."""
        count = self._partition_count_of(name)
        return self._decided[name] if count is None else count


def _names(infos: Iterable[TopicInfo]) -> Iterator[str]:
    return (info.name for info in infos)


def _copartition_groups(subtopology: Subtopology) -> Iterator[AbstractSet[str]]:
    for group in subtopology.copartition_groups:
        repartitions = list(_names(subtopology.repartition_source_topics))
        found = {
            *_at(subtopology.source_topics, group.source_topics),
            *_at(repartitions, group.repartition_source_topics),
        }
        if found:
            yield found


def _at(names: list[str], indexes: Collection[int]) -> list[str]:
    if not all(0 <= index < len(names) for index in indexes):
        text = f"A copartition group names topics {sorted(indexes)} of {len(names)}."
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    return [names[index] for index in indexes]


def _equal(counts: Mapping[str, int]) -> int:
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}={count}" for name, count in sorted(counts.items()))
        detail = f"Following topics do not have the same number of partitions: [{{{listed}}}]"
        raise _FaultError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    return next(iter(counts.values()))


def _configured(subtopology: Subtopology, counts: Mapping[str, int]) -> ConfiguredSubtopology:
    def internal(infos: Iterable[TopicInfo]) -> dict[str, InternalTopic]:
        return {
            info.name: InternalTopic(
                info.name,
                info.partitions or counts[info.name],
                info.replication_factor or -1,
                {entry.key: entry.value for entry in info.topic_configs},
            )
            for info in infos
        }

    return ConfiguredSubtopology(
        max(counts[name] for name in source_topics(subtopology)),
        bool(subtopology.state_changelog_topics),
        internal(subtopology.repartition_source_topics),
        internal(subtopology.state_changelog_topics),
    )


def _missing(
    subtopologies: Iterable[ConfiguredSubtopology], partition_count_of: PartitionCountOf
) -> tuple[InternalTopic, ...]:
    missing = {}
    for subtopology in subtopologies:
        for topic in (*subtopology.repartition_sources.values(), *subtopology.changelogs.values()):
            found = partition_count_of(topic.name)
            if found is None:
                missing[topic.name] = topic
            elif found != topic.partition_count:
                detail = (
                    f"Existing topic {topic.name} has different number of partitions: expected "
                    f"{topic.partition_count}, found {found}"
                )
                raise _FaultError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    return tuple(missing[name] for name in sorted(missing))
