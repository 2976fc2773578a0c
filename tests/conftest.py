"""What holds for all tests: which of them share a process, that interrupts interrupt, and how much Hypothesis tries.

With `--dist loadfile`, processes share the tests file by file. Files that use the same JVM are one piece: a Spark
session or an Apache Kafka takes longer to start and to warm up than most tests take. Long pieces come first, so that no
process waits for another's last one.
"""

import gc
import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A busy machine is no reason to fail, so no example has a deadline. `--hypothesis-profile=thorough` tries more.
settings.register_profile("usual", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile("usual")

_CONNECTOR = "tests/compat/spark_connector/"
_SPARK = (_CONNECTOR, "tests/integration/spark/")
_OWN_DRIVER = (
    "tests/integration/spark/test_demo.py",
    "tests/integration/spark/test_pipeline_declarative.py",
    "tests/integration/spark/test_pipeline_kill.py",
    "tests/integration/spark/test_sink_cluster.py",
    "tests/integration/spark/test_sink_kills.py",
    "tests/integration/spark/test_table_command.py",
)
"""Files that start Spark in processes of their own."""
_SHARED = ("tests/compat/apache_kafka/", "tests/compat/kafka_tools/")
"""Folders with an Apache Kafka, or what it wrote, for all of their files."""

_COMPILING = (
    "tests/property/arrow/",
    "tests/property/spark_source/",
    "tests/property/storage_cleaner/",
    "tests/unit/client/arrow/",
    "tests/unit/storage/cleaner/",
)
"""Folders whose tests compile kernels that are not in numba's cache. Side by side, one process gets most of them, and
the other does not compile the same kernels meanwhile."""

_LONG_FIRST = (
    *_COMPILING,
    *_OWN_DRIVER,
    "tests/compat/kafka_tools/test_compaction_beside_kafka.py",
    *_SPARK,
    "tests/integration/test_simulated_clusters.py",
    "tests/compat/kafka_tools/",
    "tests/compat/transactions/",
    "tests/compat/groups/",
    "tests/compat/apache_kafka/",
    "tests/integration/test_cli_cluster.py",
    "tests/integration/test_kill.py",
    "tests/integration/test_hostile",
    "tests/compat/",
)


def _turn(item: pytest.Item) -> int:
    for turn, folder in enumerate(_LONG_FIRST):
        if item.nodeid.startswith(folder):
            return turn
    return len(_LONG_FIRST)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def pytest_collection_finish() -> None:
    """Exempt thousands of tests and modules from the garbage collections of the tests: none of them is garbage."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep files together that use the same JVM. The long tests are too many for that: there, each file is a piece."""
    if config.getoption("dist") != "loadfile" or config.getoption("markexpr") == "long":
        return None
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class ByJvm(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if file.startswith(_SPARK) and file not in _OWN_DRIVER:
                return "spark"
            return next((folder for folder in _SHARED if file.startswith(folder)), file)

    return ByJvm(config, log)


def _try_no_constants() -> None:
    """Hypothesis tries numbers and texts that stand in the sources, too, and parses a thousand modules for them.

    That takes each process of a first run seven seconds. The profile `thorough` has them; there is no setting for it.
    """
    from hypothesis.internal.conjecture import providers

    if hasattr(providers, "_get_local_constants"):
        none = providers._local_constants  # empty before the first example
        providers._get_local_constants = lambda: none


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all is collected: `pytest_collection_finish`
    if config.getoption("--hypothesis-profile", None) != "thorough":
        _try_no_constants()
    # A script's background jobs ignore SIGINT, and so would every process that a test starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Kafka and Spark live for seconds here: what the second compiler of their JVMs gains, they never see.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Close with what was skipped for want of a program, and how to get it."""
    reasons = Counter(str(each.longrepr[2]) for each in terminalreporter.stats.get("skipped", ()))
    missing = {reason: count for reason, count in reasons.items() if "not installed" in reason}
    if missing:
        listed = ", ".join(f"{reason.removeprefix('Skipped: ')} ({count})" for reason, count in sorted(missing.items()))
        text = f"{sum(missing.values())} tests were skipped: {listed}. `make test-deps` installs what they need."
        terminalreporter.write_line(text, yellow=True)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator["SparkSession"]:
    """The one Spark session of this test process, of two local cores.

    It has the jars of Spark's own Kafka connector if some test is about them: jars that are added later are not found
    by the thread that reads errors.
    """
    from benchmarks import spark_connector
    from tidelog.spark import spark_session
    from tidelog.spark.internals import end_java

    chosen = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    }
    wants_jars = any(item.nodeid.startswith(_CONNECTOR) for item in request.session.items)
    if wants_jars and spark_connector.unavailable_reason() is None:
        chosen["spark.jars"] = spark_connector.spark_jars()
    yield spark_session("tests", master="local[2]", settings=chosen, local_checkpoints=True)
    end_java()
