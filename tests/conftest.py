"""Long files first: processes share the tests file by file, and none shall wait for another's last long one."""

import pytest

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
