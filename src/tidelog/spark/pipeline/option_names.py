"""The names of the connector's options, to find misspelt ones before Spark starts. Pure.

Spark itself passes over options it does not know.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

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
NAMED_ELSEWHERE: Final = {
    "subscribe": "name the topics: topic('a', 'b')",
    "subscribepattern": "use topic(pattern=…)",
    "assign": "name the topics: topic('a', 'b')",
    "topic": "name the topic: topic('a')",
    "kafka.bootstrap.servers": "use the pipeline's bootstrap_servers, or --bootstrap-server",
    "endingoffsets": "a stream has no end; run it with --once",
    "endingtimestamp": "a stream has no end; run it with --once",
    "endingoffsetsbytimestamp": "a stream has no end; run it with --once",
}


def option_problems(options: Mapping[str, str], known: frozenset[str]) -> list[str]:
    """A sentence for each option that has no meaning here."""
    lowered = {name.lower(): name for name in known}
    problems: list[str] = []
    for name, value in options.items():
        low = name.lower()
        if low in NAMED_ELSEWHERE:
            problems.append(f"option {name!r} cannot be set here: {NAMED_ELSEWHERE[low]}")
        elif low not in lowered and not low.startswith("kafka."):
            close = get_close_matches(low, lowered, n=1)
            hint = f"; did you mean {lowered[close[0]]!r}?" if close else ""
            problems.append(f"option {name!r} ({value!r}) is unknown{hint}")
    return problems
