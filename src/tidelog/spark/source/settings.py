"""Every option of the source, read once, checked and frozen. The names and defaults are the official connector's.

`batch_reader` and `stream_reader` load them on the driver; of these, `TaskSettings` travels to the executors. Two are
our own: `maxBytesPerTrigger` and `commitGroupId`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidelog.spark.options import OptionError, Options, parse_duration_ms
from tidelog.spark.source.client_settings import ClientSettings, read_client_settings
from tidelog.spark.source.limits import Earliest, Latest, Limit, check_batch_limits, read_limit
from tidelog.spark.source.strategies import Strategy, make_strategy

POLL_TIMEOUT_MS: Final = 120_000
"""Spark's own network timeout, which the official connector takes."""

_BATCH_GROUP: Final = "spark-kafka-relation"
_STREAM_GROUP: Final = "spark-kafka-source"
_ENDING: Final = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
_PER_TRIGGER: Final = (
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "commitGroupId",
)


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """How much one micro-batch takes."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_ms: int = 15 * 60 * 1000
    max_bytes: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether a micro-batch may take less than there is."""
        return self.max_offsets is not None or self.min_offsets is not None or self.max_bytes is not None


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """What a task needs to know."""

    client: ClientSettings
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = POLL_TIMEOUT_MS

    def for_tasks(self) -> "TaskSettings":
        """See `ClientSettings.for_tasks`."""
        return replace(self, client=self.client.for_tasks())

    def with_security(self, security: tuple[tuple[str, str], ...]) -> "TaskSettings":
        """See `ClientSettings.with_security`."""
        return replace(self, client=self.client.with_security(security)) if security else self


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Everything the driver needs to know."""

    task: TaskSettings
    strategy: Strategy
    starting: Limit
    ending: Limit = field(default_factory=Latest)
    latest_if_no_record: bool = False
    """`startingOffsetsByTimestampStrategy`: begin at the end where no record is at or after the time."""
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    offset_retries: int = 3
    offset_retry_ms: int = 10
    metadata_ttl_ms: int = -1
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    commit_group_id: str | None = None
    notes: tuple[str, ...] = ()
    """Warnings to log once: settings without effect."""

    def for_tasks(self) -> "SourceSettings":
        """The settings to pickle into tasks."""
        return replace(self, task=self.task.for_tasks())


def load_batch_settings(given: Mapping[str, str]) -> SourceSettings:
    """The options of `spark.read`."""
    options = Options(given)
    starting, ending = read_limit(options, "starting", Earliest()), read_limit(options, "ending", Latest())
    check_batch_limits(starting, ending)
    notes = [
        f"option {name!r} has no effect in a batch query" for name in _PER_TRIGGER if options.text(name) is not None
    ]
    return _load(options, _BATCH_GROUP, notes, starting=starting, ending=ending)


def load_stream_settings(given: Mapping[str, str]) -> SourceSettings:
    """The options of `spark.readStream`."""
    options = Options(given)
    options.refuse(_ENDING, "a stream has no end")
    options.refuse(("path",), "segment files are read by spark.read; a stream reads from a cluster")
    return _load(
        options,
        _STREAM_GROUP,
        [],
        starting=read_limit(options, "starting", Latest()),
        admission=_admission(options),
        commit_group_id=options.text("commitGroupId"),
    )


def _load(options: Options, group: str, notes: list[str], **more: Any) -> SourceSettings:
    client, client_notes = read_client_settings(options, options.text("groupIdPrefix") or group)
    strategy = make_strategy(options)
    when_missing = options.one_of("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    ttl_ms = options.number("partition.metadata.cache.ttl.ms", at_least=-1)
    if ttl_ms == 0:
        raise OptionError("option 'partition.metadata.cache.ttl.ms' is 0: it must be positive, or -1 for no cache")
    retries = options.number("fetchOffset.numRetries", at_least=0)
    retry_ms = options.number("fetchOffset.retryIntervalMs", at_least=0)
    return SourceSettings(
        task=TaskSettings(
            client,
            options.flag("failOnDataLoss", True),
            options.number("kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS,
        ),
        strategy=strategy,
        latest_if_no_record=when_missing == "latest",
        min_partitions=options.number("minPartitions"),
        max_records_per_partition=options.number("maxRecordsPerPartition"),
        offset_retries=3 if retries is None else retries,
        offset_retry_ms=10 if retry_ms is None else retry_ms,
        metadata_ttl_ms=-1 if ttl_ms is None else ttl_ms,
        notes=(*notes, *client_notes),
        **more,
    )


def _admission(options: Options) -> AdmissionSettings:
    delay = options.text("maxTriggerDelay")
    admission = AdmissionSettings(
        options.number("maxOffsetsPerTrigger"),
        options.number("minOffsetsPerTrigger"),
        parse_duration_ms("maxTriggerDelay", "15m" if delay is None else delay),
        options.number("maxBytesPerTrigger"),
    )
    low, high = admission.min_offsets, admission.max_offsets
    if low is not None and high is not None and low > high:
        raise OptionError(f"option 'minOffsetsPerTrigger' is {low}: it must not exceed 'maxOffsetsPerTrigger', {high}")
    return admission
