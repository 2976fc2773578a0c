"""The connector's options in a pipeline: misspelt names and invalid values, found before Spark starts. Pure.

Spark itself ignores unknown options. Values are checked by the connector's own settings.
"""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Final

from tidelog.spark.command_config import COMMAND_CONFIG
from tidelog.spark.options import OptionError, Options
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.endpoints import Topic
from tidelog.spark.pipeline.failing.source_options import source_options
from tidelog.spark.sink.settings import read_stream_settings
from tidelog.spark.source.settings import load_batch_settings, load_stream_settings

SOURCE_OPTIONS: Final = frozenset(
    {
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsets",
        "startingOffsetsByTimestampStrategy",
        "failOnDataLoss",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "maxBytesPerTrigger",
        "minPartitions",
        "maxRecordsPerPartition",
        "includeHeaders",
        "groupIdPrefix",
        "commitGroupId",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "partition.metadata.cache.ttl.ms",
    }
)
SINK_OPTIONS: Final = frozenset({"includeHeaders", "delivery", "transactionalId", "stateTopic"})
_ENDING: Final = frozenset({"endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"})
_ANYWHERE: Final = Connection("localhost:9092")
_SECURITY: Final = ("kafka.security.", "kafka.ssl.", "kafka.sasl.", "kafka.auth.")
NAMED_ELSEWHERE: Final = {
    "subscribe": "name the topics: topic('a', 'b')",
    "subscribepattern": "use topic(pattern=…)",
    "assign": "name the topics: topic('a', 'b')",
    "topic": "name the topic: topic('a')",
    "kafka.bootstrap.servers": "use the pipeline's bootstrap_servers, or --bootstrap-server",
    COMMAND_CONFIG.lower(): "use the pipeline's command_config, or --command-config",
    "endingoffsets": "a stream has no end; run it with --once",
    "endingtimestamp": "a stream has no end; run it with --once",
    "endingoffsetsbytimestamp": "a stream has no end; run it with --once",
}
_SECURITY_ELSEWHERE: Final = (
    "all topics of a pipeline are reached with the same settings: use its client_settings, without 'kafka.', or the "
    "file of command_config or --command-config"
)


def source_problems(source: Topic) -> list[str]:
    """What is wrong with the options of a stream's source."""
    found = option_problems(source.options, SOURCE_OPTIONS)
    return found or _refused(lambda: load_stream_settings(source_options(source, _ANYWHERE, None)))


def table_problems(table: Topic) -> list[str]:
    """What is wrong with the options of a topic that is read whole."""
    found = [each for each in option_problems(table.options, SOURCE_OPTIONS | _ENDING) if "no end" not in each]
    return found or _refused(lambda: load_batch_settings(source_options(table, _ANYWHERE, None)))


def sink_problems(sink: Topic) -> list[str]:
    """What is wrong with the options of a stream's sink."""
    given = {**sink.options, **_ANYWHERE.options(), "checkpointLocation": "checkpoint"}
    return option_problems(sink.options, SINK_OPTIONS) or _refused(lambda: read_stream_settings(Options(given)))


def _refused(read: Callable[[], object]) -> list[str]:
    try:
        read()
    except OptionError as error:
        return [str(error)]
    return []


def option_problems(options: Mapping[str, str], known: frozenset[str]) -> list[str]:
    """A message for each option that does not apply here."""
    lowered = {name.lower(): name for name in known}
    problems: list[str] = []
    for name in options:
        low = name.lower()
        if low in NAMED_ELSEWHERE:
            problems.append(f"option {name!r} cannot be set here: {NAMED_ELSEWHERE[low]}")
        elif low.startswith(_SECURITY):
            problems.append(f"option {name!r} cannot be set here: {_SECURITY_ELSEWHERE}")
        elif low not in lowered and not low.startswith("kafka."):
            close = get_close_matches(low, lowered, n=1)
            hint = f"; did you mean {lowered[close[0]]!r}?" if close else ""
            problems.append(f"option {name!r} is unknown{hint}")
    return problems
