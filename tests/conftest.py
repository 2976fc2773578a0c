"""What holds for all tests: the order of their files, that interrupts interrupt, and how much Hypothesis tries.

Long files come first: processes share the tests file by file, and none shall wait for another's last long one.
"""

import os
import signal

import pytest
from hypothesis import settings

# A busy machine is no reason to fail, so no example has a deadline. `--hypothesis-profile=thorough` tries more.
settings.register_profile("usual", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile("usual")

_LONG_FIRST = (
    "tests/integration/spark/test_pipeline_kill.py",
    "tests/integration/spark/test_sink_kills.py",
    "tests/integration/spark/test_demo.py",
    "tests/integration/spark/test_sink_cluster.py",
    "tests/integration/spark/test_pipeline_declarative.py",
    "tests/compat/kafka_tools/test_compaction_beside_kafka.py",
    "tests/integration/test_kill.py",
    "tests/integration/spark/",
    "tests/compat/spark_connector/",
    "tests/compat/kafka_tools/",
    "tests/compat/",
)


def _turn(item: pytest.Item) -> int:
    for turn, folder in enumerate(_LONG_FIRST):
        if item.nodeid.startswith(folder):
            return turn
    return len(_LONG_FIRST)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)


def pytest_configure() -> None:
    # A script's background jobs ignore SIGINT, and so would every process that a test starts and interrupts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Kafka and Spark live for seconds here: what the second compiler of their JVMs gains, they never see.
    os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
