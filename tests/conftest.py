"""Long files first: two processes share the tests file by file, and none shall wait for the other's last long one."""

import pytest

_LONG_FIRST = (
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
