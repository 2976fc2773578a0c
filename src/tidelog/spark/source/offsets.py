"""Offsets as text: the JSON of options, checkpoints and progress reports, as the official connector writes it.

    {"orders":{"0":23,"1":-1,"2":-2}}

Topics and partitions are sorted, because Spark compares offsets as strings. In options -1 stands for the latest offset
and -2 for the earliest. Pure; the settings, the stream reader and the progress listener are the callers.

Where a query began is part of its first offsets, under a name that no topic can have (`ORIGIN`). Spark does not keep
the initial offset and asks for it again when the first micro-batch has to be repeated; by then "latest" has moved.

The ids of topics are part of all offsets, each in the name of an entry without partitions (`$id:<topic>:<id>`): a topic
that was deleted and made again under its name has another id. The official connector, which may go on from our
checkpoint, reads such an entry as a topic without partitions.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from tidelog.client.types import TopicPartition
from tidelog.spark.options import OptionError
from tidelog.wire.primitives import NO_UUID

LATEST: Final = -1
EARLIEST: Final = -2
OFFSET_MAX: Final = 2**63 - 1
PARTITION_MAX: Final = 2**31 - 1
ORIGIN: Final = "$from"
_TOPIC_ID: Final = "$id:"

Offsets = dict[TopicPartition, int]


def parse_offsets(option: str, text: str) -> Offsets:
    """`{"topic":{"0":23}}` with -1 and -2 allowed. Raises OptionError naming the option and what is wrong in it."""
    return _parse(option, text, EARLIEST, 'such as {"topic":{"0":23,"1":-1}}')


def parse_timestamps(option: str, text: str) -> Offsets:
    """`{"topic":{"0":1600000000000}}`, times in milliseconds."""
    return _parse(option, text, 0, 'such as {"topic":{"0":1600000000000}}')


def parse_assignment(option: str, text: str) -> tuple[TopicPartition, ...]:
    """`{"topic":[0,1]}`, sorted."""
    found: set[TopicPartition] = set()
    for topic, partitions in _topics(option, text, 'such as {"topic":[0,1]}').items():
        if not isinstance(partitions, list) or not partitions:
            raise OptionError(f"option {option!r} has {partitions!r} for topic {topic!r}: it must be a list of numbers")
        for partition in partitions:
            if not _is_int(partition) or not 0 <= partition <= PARTITION_MAX:
                raise OptionError(f"option {option!r} has partition {partition!r} of topic {topic!r}: not a partition")
            found.add(TopicPartition(topic, partition))
    return tuple(sorted(found))


def to_json(offsets: Mapping[TopicPartition, int], origin: Mapping[TopicPartition, int] | None = None) -> Any:
    """The dict that Spark writes as JSON; `origin` is where the query began, if this is one of its first offsets."""
    shown: dict[str, Any] = {}
    for topic, partition in sorted(offsets):
        shown.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    if origin is not None:
        shown[ORIGIN] = to_json(origin)
    return shown


def with_topic_ids(shown: Mapping[str, Any], topic_ids: Mapping[str, bytes]) -> dict[str, Any]:
    """Offsets with the ids of their topics, where they are known."""
    known = {name: topic_ids[name] for name in shown if name in topic_ids and topic_ids[name] != NO_UUID}
    return {**shown, **{f"{_TOPIC_ID}{name}:{topic_id.hex()}": {} for name, topic_id in sorted(known.items())}}


def topic_ids_of(shown: Mapping[str, Any]) -> dict[str, bytes]:
    """The ids of topics that were noted with offsets."""
    found: dict[str, bytes] = {}
    for entry in shown:
        if entry.startswith(_TOPIC_ID):
            name, _, topic_id = entry.removeprefix(_TOPIC_ID).rpartition(":")
            with suppress(ValueError):
                found[name] = bytes.fromhex(topic_id)
    return found


def from_json(shown: Mapping[str, Any]) -> Offsets:
    """Offsets of a dict that `to_json` made. Raises OptionError for one that it did not make."""
    return {
        TopicPartition(topic, _partition("checkpoint", topic, name)): _number("checkpoint", topic, name, value, 0)
        for topic, partitions in shown.items()
        if topic != ORIGIN
        for name, value in _partitions("checkpoint", topic, partitions).items()
    }


def origin_of(shown: Mapping[str, Any]) -> Offsets | None:
    """Where the query began, if these are its first offsets."""
    origin = shown.get(ORIGIN)
    return None if origin is None else from_json(origin)


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Partitions for messages, sorted: `orders-0, orders-1`."""
    return ", ".join(map(str, sorted(partitions))) or "none"


def _parse(option: str, text: str, at_least: int, example: str) -> Offsets:
    return {
        TopicPartition(topic, _partition(option, topic, name)): _number(option, topic, name, value, at_least)
        for topic, partitions in _topics(option, text, example).items()
        for name, value in _partitions(option, topic, partitions).items()
    }


def _topics(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        topics = json.loads(text)
    except (ValueError, RecursionError):
        raise OptionError(f"option {option!r} is {text!r}: it must be JSON {example}") from None
    if not isinstance(topics, dict) or not topics:
        raise OptionError(f"option {option!r} is {text!r}: it must be JSON {example}")
    return topics


def _partitions(option: str, topic: str, partitions: Any) -> dict[str, Any]:
    if not isinstance(partitions, dict):
        raise OptionError(f"option {option!r} has {partitions!r} for topic {topic!r}: it must be {{partition: number}}")
    return partitions


def _partition(option: str, topic: str, name: str) -> int:
    if not (name.isascii() and name.isdigit() and len(name) <= 10 and int(name) <= PARTITION_MAX):
        raise OptionError(f"option {option!r} has partition {name!r} of topic {topic!r}: not a partition")
    return int(name)


def _number(option: str, topic: str, name: str, value: Any, at_least: int) -> int:
    if not _is_int(value) or not at_least <= value <= OFFSET_MAX:
        raise OptionError(
            f"option {option!r} has {value!r} for {topic}-{name}: it must be a whole number of at least {at_least}"
        )
    return int(value)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
