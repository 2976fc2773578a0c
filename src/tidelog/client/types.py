"""Plain data that producers, consumers and admins share, and that callers hand in and get back."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from tidelog.client.addresses import address_text
from tidelog.wire.partitions import TopicPartition as TopicPartition

_OFFSET_MAX: Final = (1 << 63) - 1
_LONGEST_S: Final = 1e9


class ArrowStream(Protocol):
    """A table of any library that offers Arrow's C stream interface, as pandas and Polars do."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any: ...


class BrokerNode(NamedTuple):
    """A broker as metadata names it. Bootstrap servers, whose ids are not known yet, count down from -1."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """`host:port`, for messages."""
        return address_text(self.host, self.port)


class OffsetAndMetadata(NamedTuple):
    """A position to commit: the offset to read next, and the epoch of the record before it where it is known."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


Places = Mapping[TopicPartition, OffsetAndMetadata | int]
"""Offsets to commit: the next one to read, with or without metadata."""


def as_partition(given: object) -> TopicPartition:
    """A partition, from one or from any pair of a topic and a number. Raises ValueError for anything else."""
    if isinstance(given, tuple) and len(given) == 2:
        topic, partition = given
        if isinstance(topic, str) and isinstance(partition, int) and partition >= 0:
            return TopicPartition(topic, partition)
    raise ValueError(f"{given!r} is not a partition; give TopicPartition(topic, number)")


def as_partitions(given: Iterable[object]) -> tuple[TopicPartition, ...]:
    """Partitions, from what calls that take any number of them were given."""
    return tuple([as_partition(each) for each in given])


def as_names(given: Iterable[str]) -> list[str]:
    """Names of topics, groups or the like. Raises ValueError for a text, whose letters would be taken for names."""
    if isinstance(given, str | bytes):
        raise ValueError(f"{given!r} is one name; give a list of names")
    names = list(given)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is not a name")
    return names


def as_place(place: OffsetAndMetadata | int) -> OffsetAndMetadata:
    """Parse an offset. Raises ValueError for anything else."""
    found = OffsetAndMetadata(place) if isinstance(place, int) else place
    if not isinstance(found, OffsetAndMetadata) or not 0 <= found.offset <= _OFFSET_MAX:
        raise ValueError(f"{place!r} is not an offset; give a number, 0 or higher, or OffsetAndMetadata")
    return found


def as_places(offsets: Places) -> dict[TopicPartition, OffsetAndMetadata]:
    """Parse offsets by partition. Raises ValueError for anything else."""
    if not isinstance(offsets, Mapping):
        raise ValueError(f"{offsets!r} are not offsets by partition; give {{TopicPartition(topic, number): offset}}")
    return {as_partition(each): as_place(place) for each, place in offsets.items()}


def milliseconds(seconds: float) -> int:
    """A duration that a caller gave in seconds, in the unit of deadlines here; infinity is very long.

    Raise `ValueError` for anything that is not a number, 0 or higher.
    """
    # A comparison with NaN is false, so NaN is refused as well.
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise ValueError(f"a timeout of {seconds!r} must be a number of seconds, 0 or higher")
    return int(min(seconds, _LONGEST_S) * 1000)


class ConsumerGroupMetadata(NamedTuple):
    """What a group knows a member by; a producer commits offsets inside a transaction in its name (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
