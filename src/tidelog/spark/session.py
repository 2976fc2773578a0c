"""A Spark session that suits Tidelog: this Python in the workers, a Java that works.

`spark_session()` is for programs, notebooks and `tidelog pipeline run`; under `spark-submit` the session is there
already and `SPARK_SETTINGS` lists what is worth setting on it.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from tidelog.spark.java import find_java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_SETTINGS: Final[Mapping[str, str]] = {
    # A task that runs twice writes twice into the same transaction; the sink refuses it.
    "spark.speculation": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Over TCP the JVM waits for a delayed acknowledgement each time it talks to a Python worker: 40 ms a micro-batch.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
}
# Local disks rename atomically, so the checksummed, fsynced detour of the default is not needed: 40 ms less a batch.
_LOCAL_CHECKPOINTS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_JAVA_END_S: Final = 20.0


def spark_session(
    app_name: str = "tidelog",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    local_checkpoints: bool = False,
) -> "SparkSession":
    """The running session, or a new one. `master` defaults to SPARK_MASTER, else to all local cores.

    Only `settings` are put to a session that runs. What was given to `spark-submit` stays as it is.
    `local_checkpoints` says that all checkpoints of a new session are on local disks, where they can be written in less
    time. An object store (`s3a:`, `abfss:`, `gs:`) cannot rename atomically: do not set it for such checkpoints.
    """
    from pyspark.sql import SparkSession

    builder, chosen = SparkSession.builder, dict(settings or {})
    if not _is_running():
        builder = builder.appName(app_name)
        if not os.environ.get("SPARK_REMOTE"):
            submitted = _submitted()
            name = master or submitted.get("spark.master") or os.environ.get("SPARK_MASTER") or _all_cores()
            is_local = name.startswith("local")
            prepare_environment(is_local=is_local)
            builder = builder.master(name)
            defaults = {**SPARK_SETTINGS, **(_LOCAL_CHECKPOINTS if local_checkpoints and is_local else {})}
            chosen = {**{each: value for each, value in defaults.items() if each not in submitted}, **chosen}
            _start_java({"spark.master": name, "spark.app.name": app_name, **chosen})
    for each, value in chosen.items():
        builder = builder.config(each, value)
    return builder.getOrCreate()


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


def is_java_gone() -> bool:
    """Whether the JVM that this process started has ended, whatever the session believes."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return gateway is not None and getattr(gateway, "proc", None) is not None and gateway.proc.poll() is not None


def prepare_environment(*, is_local: bool = True) -> None:
    """What Spark reads from the environment when it starts; what the user has set stays."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        # Executors on other machines have to find the driver under an address of its machine.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = str(find_java_home())


def _is_running() -> bool:
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _submitted() -> dict[str, str]:
    """The options of `spark-submit`, which has already started the JVM."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _start_java(settings: Mapping[str, str]) -> None:
    """Start the JVM as PySpark would, but whole: a start that Ctrl-C cuts short leaves it running for ever."""
    from pyspark import SparkConf, SparkContext

    with interrupts_held():
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))


@contextmanager
def interrupts_held() -> Iterator[None]:
    """An interrupt that comes meanwhile takes effect at the end."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    held: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *given: held.append(given))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        before(*held[0])


def _all_cores() -> str:
    return f"local[{os.cpu_count() or 1}]"
