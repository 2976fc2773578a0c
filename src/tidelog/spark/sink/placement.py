"""`place_rows`: every row to the task that owns its partition, so that a transaction has one writer for each.

    placed = place_rows(df, topic="orders", bootstrap_servers="localhost:9092")
    placed.writeStream.format("tidelog").option("topic", "orders")...

Partitions are chosen by murmur2 of the keys, in the JVM where that is possible; else keys travel to Python, to the
producer's own, which takes longer than all else that is done here. Spark then moves the rows. How many partitions
`topic` has is asked for once, here; for topics named in a column, it is asked for by the tasks.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from tidelog.client.aio.producer.partitioners import own_partitioner
from tidelog.spark.internals import context_of, murmur2
from tidelog.spark.options import OptionError, Options
from tidelog.spark.sink.clients import cluster_of
from tidelog.spark.sink.errors import SinkError
from tidelog.spark.sink.rows import Partitioner
from tidelog.spark.sink.settings import SinkSettings, read_batch_settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PARTITION: Final = "partition"
_POSITIVE: Final = 0x7FFFFFFF
_MARK: Final = "_tidelog_is_placed"
_NOT_HERE: Final = "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION"
_STICKY_BYTES: Final = 1024
"""Rows without key change partitions this often; since only keys are seen here, a row counts for a few bytes."""


def place_rows(
    df: "DataFrame",
    *,
    topic: str | None = None,
    bootstrap_servers: str,
    tasks: int | None = None,
    columns: Collection[str] | None = None,
    **options: Any,
) -> "DataFrame":
    """Fill the column `partition` and move rows so that each task has partitions of its own.

    Rows with a partition keep it, rows with a key get the one that Kafka's producers choose, all others are spread.
    `topic` is where the rows will go; without it the column `topic` decides. `tasks` is how many tasks will write, by
    default as many as a shuffle has (`spark.sql.shuffle.partitions`), on one machine at most one for each core, and
    never more than partitions. With one, nothing is shuffled and the sink itself chooses
    partitions: where two or three cores do all the work, that is quicker. `options` are `kafka.…` settings and
    `commandConfig`, as for the sink. Within a task of `df`, rows of the same key keep their order.

    `columns` are those of `df`, to be named where it cannot be asked for them: in functions of Declarative Pipelines
    that read other tables of the pipeline.
    """
    from pyspark.sql import functions

    settings = _settings(topic, bootstrap_servers, options)
    names = _columns(df) if columns is None else columns
    if topic is None and "topic" not in names:
        raise OptionError("place_rows needs topic=, or a column 'topic' with the topic of each row")
    count = None if topic is None else partition_count(settings, topic)
    settings = settings.for_tasks()
    chosen_tasks = _task_count(df, tasks, count)
    given = functions.col(_PARTITION) if _PARTITION in names else functions.lit(None).cast("int")
    if chosen_tasks == 1 or ("key" not in names and _PARTITION not in names):
        # One task owns everything. Several that are free to choose are kept apart by the sink, if there are not more of
        # them than partitions. Either way the sink chooses, and keys need not come to Python twice.
        return mark_placed(df.withColumn(_PARTITION, given).coalesce(chosen_tasks))
    chosen = None if count is None else _partitions_in_jvm(df, names, settings, count)
    if chosen is None:
        key = functions.col("key") if "key" in names else functions.lit(None).cast("binary")
        where = [] if topic is not None else [functions.col("topic")]
        chosen = _chooser(settings, topic, count)(key, *where)
    placed = df.withColumn(_PARTITION, functions.coalesce(given, chosen))
    owner: Column = functions.col(_PARTITION)
    if topic is None:
        owner = functions.pmod(functions.crc32(functions.col("topic").cast("binary")) + owner, functions.lit(1 << 30))
    return mark_placed(placed.repartitionById(chosen_tasks, owner.cast("int")))


def is_placed(df: "DataFrame") -> bool:
    """Whether `df` is what `place_rows` returned. What was made of that may have moved rows since."""
    return getattr(df, _MARK, False) is True


def mark_placed(df: "DataFrame") -> "DataFrame":
    """Mark a frame that was made of placed rows and did not move any."""
    setattr(df, _MARK, True)
    return df


def _columns(df: "DataFrame") -> list[str]:
    from pyspark.errors import AnalysisException

    try:
        return df.columns
    except AnalysisException as error:
        if error.getCondition() != _NOT_HERE:
            raise
        raise OptionError(
            "place_rows cannot read the columns of a table of this pipeline: name them: columns=['key', 'value']"
        ) from error


def _settings(topic: str | None, bootstrap_servers: str, options: dict[str, Any]) -> SinkSettings:
    given = {name: str(value) for name, value in options.items()}
    given["kafka.bootstrap.servers"] = bootstrap_servers
    if topic is not None:
        given["topic"] = topic
    return read_batch_settings(Options(given))


def _task_count(df: "DataFrame", wanted: int | None, partition_count: int | None) -> int:
    if wanted is not None and wanted < 1:
        raise OptionError(f"tasks is {wanted}: it must be at least 1")
    most = wanted or _parallelism(df)
    return most if partition_count is None else min(most, partition_count)


def _parallelism(df: "DataFrame") -> int:
    """How many tasks a shuffle has; not more than there are cores, where that can be known.

    Rows of a batch, also in `foreachBatch`, follow the executors that are there now. The plan of a stream is made once:
    on a cluster it may be made before its executors have come, and would be bound to a few tasks for all its life.
    """
    shuffled = int(df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    context = context_of(df.sparkSession)
    if context is not None and (str(context.master).startswith("local") or not df.isStreaming):
        return min(int(context.defaultParallelism), shuffled)
    return shuffled


def _chooser(settings: SinkSettings, topic: str | None, count: int | None) -> Any:
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.types import IntegerType

    # One for each signature, because Spark distinguishes kinds of functions by their annotations.
    if topic is not None:
        name, known = topic, count

        def choose(keys: pa.Array) -> pa.Array:
            return choose_partitions(settings, keys, name, known)

        return arrow_udf(choose, IntegerType())  # type: ignore[call-overload]

    def choose_by_topic(keys: pa.Array, topics: pa.Array) -> pa.Array:
        return choose_partitions_by_topic(settings, keys, topics)

    return arrow_udf(choose_by_topic, IntegerType())  # type: ignore[call-overload]


def choose_partitions(settings: SinkSettings, keys: pa.Array, topic: str, count: int | None = None) -> pa.Array:
    """The partitions of rows with these keys, as 32-bit numbers. Called in tasks."""
    count = partition_count(settings, topic) if count is None else count
    rows = pa.RecordBatch.from_arrays([keys], ["key"])
    chosen = _partitioner(settings).choose(rows, topic, count, spread=_spread(), sticky_bytes=_STICKY_BYTES)
    return chosen.cast(pa.int32())


def choose_partitions_by_topic(settings: SinkSettings, keys: pa.Array, topics: pa.Array) -> pa.Array:
    """The same for rows of several topics; where the topic is null, so is the partition."""
    import numpy as np

    found = np.full(len(keys), -1, dtype=np.int32)
    for topic in topics.unique().drop_null().to_pylist():
        at = np.flatnonzero(pa.compute.fill_null(pa.compute.equal(topics, topic), False).to_numpy(zero_copy_only=False))
        found[at] = choose_partitions(settings, keys.take(pa.array(at)), topic).to_numpy()
    return pa.array(found, mask=found < 0)


@lru_cache(maxsize=8)
def _partitioner(settings: SinkSettings) -> Partitioner:
    return Partitioner(settings.producer_settings())


def _spread() -> int:
    """Where rows without key begin: the same when a batch is run again, and elsewhere in the next one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return 0
    return context.partitionId() + int(context.getLocalProperty("streaming.sql.batchId") or 0)


def partition_count(settings: SinkSettings, topic: str) -> int:
    """How many partitions a topic has. Raises SinkError if there is no such topic and it cannot be made."""
    may_create = settings.producer_settings().allow_auto_create_topics
    count = cluster_of(settings).partition_count(topic, may_create=may_create)
    if not count:
        raise SinkError(f"topic {topic!r} has no partitions")
    return count


def _partitions_in_jvm(
    df: "DataFrame", names: Collection[str], settings: SinkSettings, partition_count: int
) -> "Column | None":
    """The partition of every row, as Kafka's producers choose it by the key; by the value where that is null.

    None where the JVM cannot choose it, as in Spark Connect or with a partitioner of the user's.
    """
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
