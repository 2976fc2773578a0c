"""Partitions chosen inside the JVM: murmur2 of the keys, without a way to Python and back. `placement` is the caller.

SQL has no such function, but a library that Spark is never without has the hash, with Kafka's seed. An expression that
calls it is made through Py4J, of classes that Spark does not promise to keep. Where that cannot be done, in Spark
Connect or with a Spark that is made otherwise, the answer is None, and Python chooses as it always could.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from tidelog.client.aio.producer.partitioners import own_partitioner
from tidelog.spark.sink.settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HASHER: Final = "org.apache.commons.codec.digest.MurmurHash2"
_POSITIVE: Final = 0x7FFFFFFF


def partitions_in_jvm(
    df: "DataFrame", names: Collection[str], settings: SinkSettings, partition_count: int
) -> "Column | None":
    """The partition of every row, as Kafka's producers choose it by the key; by the value where that is null."""
    from pyspark.sql import functions

    kafka = settings.producer_settings()
    if kafka.partitioner_ignore_keys or own_partitioner(kafka.partitioner_class) is not None or "key" not in names:
        return None
    hashed = _murmur2(df)
    if hashed is None:
        return None
    # Not by chance: a task that Spark runs again must send its rows to the same places.
    spread = functions.pmod(functions.xxhash64("value" if "value" in names else "key"), functions.lit(partition_count))
    return functions.coalesce(hashed.bitwiseAND(_POSITIVE) % partition_count, spread.cast("int"))


def _murmur2(df: "DataFrame") -> "Column | None":
    """The hash of the column `key`, null where that is; None if it cannot be had."""
    from pyspark.sql import functions
    from pyspark.sql.types import BinaryType, StringType

    jvm: Any = getattr(df.sparkSession, "_jvm", None)
    if jvm is None or not isinstance(df.schema["key"].dataType, BinaryType | StringType):
        return None
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    key = functions.col("key").cast("binary")
    sql = jvm.org.apache.spark.sql
    try:
        from pyspark.sql.classic.column import Column

        to_expression = sql.classic.ExpressionUtils.expression
        arguments = [to_expression(each._jc) for each in (key, functions.octet_length(key))]
        invoked = sql.catalyst.expressions.objects.StaticInvoke(
            jvm.java.lang.Class.forName(_HASHER),
            sql.types.DataTypes.IntegerType,
            "hash32",
            jvm.PythonUtils.toSeq(arguments),
            jvm.PythonUtils.toSeq([]),
            True,
            True,
            True,
            jvm.scala.Option.empty(),
        )
        return Column(sql.classic.ExpressionUtils.column(invoked))
    except (Py4JError, ImportError, AttributeError, TypeError):
        return None
