"""All of Spark that Tidelog uses beside its documented API: one function for each, and the versions it was tried on.

| function | what it reaches | without it |
|---|---|---|
| `murmur2` | `ExpressionUtils`, `StaticInvoke`, commons-codec's `MurmurHash2` | keys are hashed in Python |
| `noted_offsets` | `sharedState.activeStreamingQueries`, `offsetLog` | rows are compared instead of offsets |
| `release` | the RDD below a `localCheckpoint` | its memory is freed with the session |
| `file_of` | Hadoop's file systems, through the session's JVM | – |
| `analyzed_plan` | the query execution's analyzed plan | – |
| `local_checkpoint_manager` | the class name of a checkpoint file manager | batches take 40 ms longer |
| `context_of`, `is_java_gone`, `end_java`, `start_java` | the session's context and the process of its JVM | – |

`check_version` refuses every other version of Spark: it may lack one of these, or have it otherwise.
"""

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession

TRIED: Final = ("4.2", "4.3")
"""The versions of Spark that the tests run with."""

_HASHER: Final = "org.apache.commons.codec.digest.MurmurHash2"
_CHECKPOINT_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_JAVA_END_S: Final = 20.0


class UntriedSpark(RuntimeError):  # noqa: N818 - reads as what it says
    """A version of Spark that Tidelog was not tried with."""


def check_version(version: str | None = None) -> None:
    """Raise UntriedSpark unless PySpark (or `version`) is one that Tidelog was tried with."""
    if version is None:
        import pyspark

        version = pyspark.__version__
    if ".".join(version.split(".")[:2]) not in TRIED:
        raise UntriedSpark(
            f"this is Spark {version}, and Tidelog works with Spark {' and '.join(TRIED)}: Python data sources of "
            "earlier versions cannot limit a batch or write Arrow, and later ones were not tried: "
            f"pip install 'pyspark~={TRIED[-1]}.0'"
        )


def context_of(session: "SparkSession") -> "SparkContext | None":
    """The context of a session; None in Spark Connect."""
    return getattr(session, "_sc", None)


def murmur2(df: "DataFrame") -> "Column | None":
    """Kafka's hash of the column `key`, null where that is; None if it cannot be computed in the JVM.

    SQL has no such function, but a library that Spark is never without has the hash, with Kafka's seed.
    """
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


def noted_offsets(rows: "DataFrame", query_id: str, batch_id: int) -> bytes | None:
    """What the running query noted for the batch that `foreachBatch` hands over, as its offset log stores it."""
    from py4j.protocol import Py4JError

    session: Any = rows.sparkSession
    try:
        jvm = session._jvm
        active = session._jsparkSession.sharedState().activeStreamingQueries()
        log = active.get(jvm.java.util.UUID.fromString(query_id)).offsetLog()
        noted = log.get(batch_id)
        out = jvm.java.io.ByteArrayOutputStream()
        log.serialize(noted.get(), out)
        return bytes(out.toByteArray())
    except (Py4JError, AttributeError, TypeError):
        return None


def release(rows: "DataFrame") -> None:
    """Release the memory of rows that `localCheckpoint` returned."""
    rows._jdf.logicalPlan().rdd().unpersist(False)


def file_of(rows: "DataFrame", path: str) -> tuple[Any, Any]:
    """Hadoop's file system of a path, and the path, whichever file system that is."""
    session: Any = rows.sparkSession
    place = session._jvm.org.apache.hadoop.fs.Path(path)
    return place.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()), place


def analyzed_plan(rows: "DataFrame") -> Any:
    """The logical plan of `rows`: `nodeName()`, `children()`, `isStreaming()`; None in Spark Connect."""
    return None if context_of(rows.sparkSession) is None else rows._jdf.queryExecution().analyzed()


def local_checkpoint_manager() -> dict[str, str]:
    """The setting for checkpoints on local disks, which rename atomically: the default starts programs to do so."""
    return {"spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_MANAGER}


def start_java(settings: Mapping[str, str]) -> None:
    """Start the JVM as PySpark would, without a session yet."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))


def is_running() -> bool:
    """Whether this process has a context."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def is_java_gone() -> bool:
    """Whether the JVM that this process started has ended, whatever the session believes."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return gateway is not None and getattr(gateway, "proc", None) is not None and gateway.proc.poll() is not None


def end_java() -> None:
    """Stop the session and end its JVM, so that it no longer writes to its directories. `spark-submit` ends its own."""
    from pyspark import SparkContext

    for _ in range(2):  # a context whose JVM is gone forgets it first and itself at the second call
        if SparkContext._active_spark_context is not None:
            with suppress(Exception):  # what was interrupted while it started may be unable to stop
                SparkContext._active_spark_context.stop()
    gateway: Any = SparkContext._gateway
    if gateway is None or gateway.proc is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    try:
        gateway.proc.wait(_JAVA_END_S)
    except subprocess.TimeoutExpired:
        gateway.proc.kill()
        gateway.proc.wait()
