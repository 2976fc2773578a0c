"""A Spark session that suits Tidelog: this Python in the workers, a Java that works, quick local checkpoints.

`spark_session()` is for programs, notebooks and `tidelog pipeline run`; under `spark-submit` the session is there
already and `SPARK_SETTINGS` lists what is worth setting on it.
"""

import os
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

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


def spark_session(
    app_name: str = "tidelog", *, master: str | None = None, settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """The running session, or a new one. `master` defaults to SPARK_MASTER, else to all local cores.

    Only `settings` are put to a session that runs. What was given to `spark-submit` stays as it is.
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
            defaults = {**SPARK_SETTINGS, **(_LOCAL_CHECKPOINTS if is_local else {})}
            chosen = {**{each: value for each, value in defaults.items() if each not in submitted}, **chosen}
    for each, value in chosen.items():
        builder = builder.config(each, value)
    return builder.getOrCreate()


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
    """What `spark-submit` was told, by its options and files; it has started the JVM already."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _all_cores() -> str:
    return f"local[{os.cpu_count() or 1}]"
