"""A Spark session that suits Tidelog: this Python in the workers, a Java that works.

`spark_session()` is for programs, notebooks and `tidelog pipeline run`; under `spark-submit` the session is there
already and `SPARK_SETTINGS` lists what is worth setting on it.
"""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tidelog.spark.home import quick_workers
from tidelog.spark.internals import (
    check_version,
    end_java,
    has_java_died,
    is_running,
    local_checkpoint_manager,
    quiet_daemon,
    start_java,
)
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


STARTS_MAX: Final = 3

LOG: Final = logging.getLogger("tidelog.spark")


class JavaEndedAtStart(RuntimeError):  # noqa: N818 - reads as what it says
    """No JVM stayed up until Spark had started."""


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

    check_version()
    builder, chosen = SparkSession.builder, dict(settings or {})
    if not is_running():
        builder = builder.appName(app_name)
        if not os.environ.get("SPARK_REMOTE"):
            submitted = _submitted()
            name = master or submitted.get("spark.master") or os.environ.get("SPARK_MASTER") or _all_cores()
            is_local = name.startswith("local")
            prepare_environment(is_local=is_local)
            builder = builder.master(name)
            defaults = {
                **SPARK_SETTINGS,
                **(quiet_daemon() if is_local else {}),
                **(local_checkpoint_manager() if local_checkpoints and is_local else {}),
            }
            chosen = {**{each: value for each, value in defaults.items() if each not in submitted}, **chosen}
            java_settings = {"spark.master": name, "spark.app.name": app_name, **chosen}
            return _started(lambda: _new(_configured(builder, chosen), java_settings))
    return _configured(builder, chosen).getOrCreate()


def _configured(builder: "SparkSession.Builder", chosen: Mapping[str, str]) -> "SparkSession.Builder":
    for each, value in chosen.items():
        builder = builder.config(each, value)
    return builder


def _new(builder: "SparkSession.Builder", java_settings: Mapping[str, str]) -> "SparkSession":
    # A start that Ctrl-C cuts short leaves the JVM running for ever.
    with interrupts_held(), quick_workers(java_settings["spark.master"]):
        start_java(java_settings)
    return builder.getOrCreate()


def _started(start: "Callable[[], SparkSession]") -> "SparkSession":
    """The session that `start` makes. If its JVM is killed meanwhile, as by a kernel short of memory, again."""
    for number in range(1, STARTS_MAX + 1):
        try:
            return start()
        except Exception as error:
            if not has_java_died(error):
                raise
            end_java()
            if number == STARTS_MAX:
                raise JavaEndedAtStart(
                    f"Spark's JVM ended {STARTS_MAX} times while it started: it was killed, perhaps because memory was "
                    "short (spark.driver.memory), or its options are wrong (--verbose shows its messages)"
                ) from error
            LOG.warning("Spark's JVM ended while it started: starting another one")
    raise AssertionError("the last start has returned or raised")


def prepare_environment(*, is_local: bool = True) -> None:
    """What Spark reads from the environment when it starts; what the user has set stays."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        # Executors on other machines have to find the driver under an address of its machine.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = str(find_java_home())


def _submitted() -> dict[str, str]:
    """The options of `spark-submit`, which has already started the JVM."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf

    start_java({})
    return dict(SparkConf().getAll())


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
