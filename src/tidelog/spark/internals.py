"""All of Spark that Tidelog uses beside its documented API: one function for each, and the versions it was tried on.

| function | what it reaches | without it |
|---|---|---|
| `murmur2` | `ExpressionUtils`, `StaticInvoke`, commons-codec's `MurmurHash2` | keys are hashed in Python |
| `noted_offsets` | `sharedState.activeStreamingQueries`, `offsetLog` | rows are compared instead of offsets |
| `release` | the RDD below a `localCheckpoint` | its memory is freed with the session |
| `file_of` | Hadoop's file systems, through the session's JVM | – |
| `observed_in`, `observed_in_batch` | what `DataFrame.observe` has counted, after an action | `fail_above` fails |
| `carried` | logical plans, of which it makes new ones | steps must select `_record` themselves |
| `analyzed_plan` | the query execution's analyzed plan | – |
| `quiet_daemon` | PySpark's daemon of workers, and the setting that names it | `BrokenPipeError` on stderr |
| `watching_watermarks` | `DataFrame.withWatermark` of classic sessions, which it wraps | late rows of a replay vanish |
| `check_streaming` | the checker of unsupported operations in streams | found when a query starts |
| `local_checkpoint_manager` | the class name of a checkpoint file manager | batches take 40 ms longer |
| `context_of`, `start_java`, `is_java_gone`, `has_java_died`, `end_java` | the context and the process of its JVM | – |

`check_version` refuses every other version of Spark: it may lack one of these, or have it otherwise.
"""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession

TRIED: Final = ("4.2", "4.3")
"""The versions of Spark that the tests run with."""

_WATERMARKS: ContextVar["Callable[[DataFrame, str], DataFrame] | None"] = ContextVar("watermarks", default=None)
_HASHER: Final = "org.apache.commons.codec.digest.MurmurHash2"
_CHECKPOINT_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
_JAVA_END_S: Final = 20.0
_JAVA_GONE_S: Final = 2.0
_LOOK_EVERY_S: Final = 0.02


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


def observed_in(rows: "DataFrame") -> dict[str, dict[str, Any]]:
    """What `observe` has counted in `rows`, whose plan an action has run: numbers, by name and column."""
    return _observed(rows, rows._jdf.queryExecution())


def observed_in_batch(rows: "DataFrame", query_id: str) -> dict[str, dict[str, Any]]:
    """The same of the micro-batch that the running query has handed over, and that an action has run."""
    session: Any = rows.sparkSession
    jvm = session._jvm
    active = session._jsparkSession.sharedState().activeStreamingQueries()
    return _observed(rows, active.get(jvm.java.util.UUID.fromString(query_id)).lastExecution())


def _observed(rows: "DataFrame", execution: Any) -> dict[str, dict[str, Any]]:
    session: Any = rows.sparkSession
    found = session._jvm.scala.jdk.javaapi.CollectionConverters.asJava(execution.observedMetrics())
    return {str(name): dict(zip(row.schema().fieldNames(), _values(row), strict=True)) for name, row in found.items()}


def _values(row: Any) -> list[Any]:
    return [row.get(index) for index in range(row.length())]


def analyzed_plan(rows: "DataFrame") -> Any:
    """The logical plan of `rows`: `nodeName()`, `children()`, `isStreaming()`; None in Spark Connect."""
    return None if context_of(rows.sparkSession) is None else rows._jdf.queryExecution().analyzed()


@contextmanager
def watching_watermarks(change: "Callable[[DataFrame, str], DataFrame]") -> Iterator[None]:
    """`rows.withWatermark(column, …)` in this block is called on `change(rows, column)`."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    original: Any = ClassicDataFrame.withWatermark
    if not getattr(original, "is_watched", False):

        def watched(rows: Any, column: str, delay: str) -> Any:
            changing = _WATERMARKS.get()
            return original(rows if changing is None else changing(rows, column), column, delay)

        watched.is_watched = True  # type: ignore[attr-defined]
        ClassicDataFrame.withWatermark = watched  # type: ignore[method-assign, assignment]
    token = _WATERMARKS.set(change)
    try:
        yield
    finally:
        _WATERMARKS.reset(token)


_PASSING: Final = frozenset(
    {"Filter", "Generate", "Project", "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias", "Window"}
)
"""Nodes of a plan that make their rows of one row each, and have its columns or, as `Project`, may have them."""
_KEEPING_LEFT: Final = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"})


def carried(rows: "DataFrame", column: str, made: "DataFrame") -> "DataFrame | None":
    """`made`, which was made of `rows` without its `column`, with it; None if a row of `made` may be of several rows.

    Also None in Spark Connect, and where two streams are joined: the column would become part of their state.
    """
    session: Any = rows.sparkSession
    if context_of(session) is None:
        return None
    output = rows._jdf.queryExecution().analyzed().output()
    found = [output.apply(index) for index in range(output.size()) if output.apply(index).name() == column]
    plan = _with_attribute(session._jvm, analyzed_plan(made), found[0]) if len(found) == 1 else None
    if plan is None:
        return None
    from pyspark.sql import DataFrame

    datasets = getattr(getattr(session._jvm, "org.apache.spark.sql.classic.Dataset$"), "MODULE$")
    return DataFrame(datasets.ofRows(session._jsparkSession, plan), session)


def _with_attribute(jvm: Any, plan: Any, attribute: Any) -> Any:
    """The plan with an attribute that it has further down; None if it cannot come up."""
    if plan.outputSet().contains(attribute):
        return plan
    name, children = str(plan.nodeName()), plan.children()
    if name == "Join":
        return _with_attribute_of_left(jvm, plan, attribute)
    if name not in _PASSING:
        return None
    below = _with_attribute(jvm, children.apply(0), attribute)
    if below is None:
        return None
    if name == "Project":
        return jvm.org.apache.spark.sql.catalyst.plans.logical.Project(plan.projectList().appended(attribute), below)
    return plan.withNewChildren(jvm.PythonUtils.toSeq([below]))


def _with_attribute_of_left(jvm: Any, plan: Any, attribute: Any) -> Any:
    children = plan.children()
    left, right = children.apply(0), children.apply(1)
    if str(plan.joinType()) not in _KEEPING_LEFT or (left.isStreaming() and right.isStreaming()):
        return None
    below = _with_attribute(jvm, left, attribute)
    return None if below is None else plan.withNewChildren(jvm.PythonUtils.toSeq([below, right]))


def check_streaming(rows: "DataFrame", output_mode: str) -> None:
    """Raise AnalysisException for what Spark does not do with streams in this mode, as the start of a query does."""
    session: Any = rows.sparkSession
    jvm = session._jvm.org.apache.spark.sql
    mode = getattr(jvm.streaming.OutputMode, output_mode.capitalize())()
    jvm.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(analyzed_plan(rows), mode)


def local_checkpoint_manager() -> dict[str, str]:
    """The setting for checkpoints on local disks, which rename atomically: the default starts programs to do so."""
    return {"spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_MANAGER}


def quiet_daemon() -> dict[str, str]:
    """The setting for Python workers that print no traceback when Spark closes their connection."""
    return {"spark.python.daemon.module": "tidelog.spark.daemon"}


def start_java(settings: Mapping[str, str]) -> None:
    """Start the JVM as PySpark would, without a session yet, but in a session of processes of its own.

    A signal to the process group, as a shell or a supervisor sends it, is then for this process alone, which ends the
    JVM after the running batch. The JVM ends by itself when this process is killed.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf().setAll(list(settings.items()))
    if SparkContext._gateway is None:
        gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def has_java_died(error: BaseException) -> bool:
    """Whether an error while Spark started comes from the end of its JVM."""
    if getattr(error, "getCondition", lambda: None)() == "JAVA_GATEWAY_EXITED":
        return True
    from py4j.protocol import Py4JNetworkError

    if not isinstance(error, Py4JNetworkError | ConnectionError):
        return is_java_gone()
    # The connection is closed before the process is gone.
    deadline = time.monotonic() + _JAVA_GONE_S
    while not is_java_gone() and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    return is_java_gone()


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
