"""The options of reading segment files: which topics, from where to where. Called by `files` on the driver.

The names and rules are those of reading from a cluster; only `path` is new, and nothing has to be chosen: without
`subscribe`, `subscribePattern` or `assign`, all topics are read but those whose names begin with two underscores.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.client.types import TopicPartition
from tidelog.spark.options import OptionError, Options
from tidelog.spark.source.files_layout import PartitionFiles
from tidelog.spark.source.offsets import EARLIEST, LATEST, Offsets, listed, parse_offsets, parse_timestamps
from tidelog.spark.source.strategies import OPTIONS as CHOICES
from tidelog.spark.source.strategies import Strategy, SubscribePattern, make_strategy

PARTITION_BYTES: Final = 128 * 1024 * 1024

_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger")
_ISOLATION: Final = ("read_committed", "read_uncommitted")
_INTERNAL_PREFIX: Final = "__"


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of what is to be read: a time, or an offset, the same for all partitions or for each its own."""

    option: str
    is_time: bool
    everywhere: int | None = None
    each: Offsets | None = None

    def of(self, files: PartitionFiles) -> int:
        """The number that holds for one partition."""
        if self.everywhere is not None:
            return self.everywhere
        assert self.each is not None, "a bound has one number or many"
        return self.each[files.topic_partition]

    def check_names(self, partitions: Iterable[PartitionFiles]) -> None:
        """Refuse a bound that does not name exactly the partitions that are read."""
        if self.each is None:
            return
        found = {files.topic_partition for files in partitions}
        for word, some in (("names", set(self.each) - found), ("does not name", found - set(self.each))):
            if some:
                raise OptionError(
                    f"option {self.option!r} {word} {listed(some)}: it must name the partitions that are read"
                )


class _FoundTopic(NamedTuple):
    """A topic, as strategies see it."""

    is_internal: bool
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What the user asked for."""

    path: str
    strategy: Strategy | None
    start: Bound
    end: Bound
    is_late_start_allowed: bool
    fail_on_data_loss: bool
    is_read_committed: bool
    check_crcs: bool
    partition_bytes: int

    def chosen(self, found: Iterable[PartitionFiles]) -> list[PartitionFiles]:
        """Those of the partitions that are asked for. Raises OptionError when a named one is not there."""
        by_name = {files.topic_partition: files for files in found}
        topics: dict[str, _FoundTopic] = {}
        for topic, partition in by_name:
            before = topics.get(topic, _FoundTopic(topic.startswith(_INTERNAL_PREFIX), ()))
            topics[topic] = before._replace(partitions=(*before.partitions, partition))
        strategy = self.strategy or SubscribePattern(".*")
        chosen = strategy.choose(topics)
        missing = set(getattr(strategy, "partitions", ())) - set(chosen)
        absent = set(strategy.topics or ()) - set(topics)
        if missing or absent:
            named = listed(missing) if missing else ", ".join(sorted(absent))
            raise OptionError(f"{named} is not among the files under {self.path}")
        return [by_name[TopicPartition(*each)] for each in chosen]


def read_file_options(given: Mapping[str, str]) -> FileOptions:
    """Read and check them. Raises OptionError."""
    options = Options(given)
    options.refuse(_STREAM_ONLY, "it is for streams, and files are read in batches")
    options.refuse(["kafka.bootstrap.servers"], "with 'path', files are read and no cluster is asked")
    strategy = options.one_of("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    isolation = "kafka.isolation.level" if options.text("kafka.isolation.level") else "isolation.level"
    return FileOptions(
        path=options.required("path", "a log directory, or directories of partitions"),
        strategy=make_strategy(options) if any(options.text(name) for name in CHOICES) else None,
        start=_start(options),
        end=_end(options),
        is_late_start_allowed=strategy == "latest",
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        is_read_committed=options.one_of(isolation, _ISOLATION, "read_committed") == "read_committed",
        check_crcs=options.flag("kafka.check.crcs", True),
        partition_bytes=options.number("maxPartitionBytes") or PARTITION_BYTES,
    )


def _start(options: Options) -> Bound:
    return _time_bound(options, "startingTimestamp", "startingOffsetsByTimestamp") or _offset_bound(
        options, "startingOffsets", ("earliest", EARLIEST), ("latest", LATEST)
    )


def _end(options: Options) -> Bound:
    return _time_bound(options, "endingTimestamp", "endingOffsetsByTimestamp") or _offset_bound(
        options, "endingOffsets", ("latest", LATEST), ("earliest", EARLIEST)
    )


def _time_bound(options: Options, everywhere: str, each: str) -> Bound | None:
    timestamp = options.number(everywhere, at_least=0)
    if timestamp is not None:
        return Bound(everywhere, is_time=True, everywhere=timestamp)
    text = options.text(each)
    return None if text is None else Bound(each, is_time=True, each=parse_timestamps(each, text))


def _offset_bound(options: Options, option: str, default: tuple[str, int], senseless: tuple[str, int]) -> Bound:
    text = options.text(option)
    if text is None or text.lower() == default[0]:
        return Bound(option, is_time=False, everywhere=default[1])
    each = {} if text.lower() == senseless[0] else parse_offsets(option, text)
    if not each or senseless[1] in each.values():
        raise OptionError(f"option {option!r} is {text!r}: with {senseless[0]} ({senseless[1]}) nothing would be read")
    return Bound(option, is_time=False, each=each)
