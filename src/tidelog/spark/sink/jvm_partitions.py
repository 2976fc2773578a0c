"""Partitions chosen inside the JVM: murmur2 of the keys, without a way to Python and back. `placement` is the caller.

Where that cannot be done, as in Spark Connect, the answer is None, and Python chooses.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from tidelog.client.aio.producer.partitioners import own_partitioner
from tidelog.spark.internals import murmur2
from tidelog.spark.sink.settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_POSITIVE: Final = 0x7FFFFFFF


def partitions_in_jvm(
    df: "DataFrame", names: Collection[str], settings: SinkSettings, partition_count: int
) -> "Column | None":
    """The partition of every row, as Kafka's producers choose it by the key; by the value where that is null."""
    from pyspark.sql import functions

    kafka = settings.producer_settings()
    if kafka.partitioner_ignore_keys or own_partitioner(kafka.partitioner_class) is not None or "key" not in names:
        return None
    hashed = murmur2(df)
    if hashed is None:
        return None
    # Not by chance: a task that Spark runs again must send its rows to the same places.
    spread = functions.pmod(functions.xxhash64("value" if "value" in names else "key"), functions.lit(partition_count))
    return functions.coalesce(hashed.bitwiseAND(_POSITIVE) % partition_count, spread.cast("int"))
