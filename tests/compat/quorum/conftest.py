"""Tests with real controllers: long, and only where Java is there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import maven
from tests.compat.quorum.cluster import JARS

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first of these tests may have to wait for Maven to fetch the jars."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.java)
            item.add_marker(pytest.mark.long)
            item.add_marker(pytest.mark.timeout(maven.SECONDS_MAX + 600))


@pytest.fixture(scope="session", autouse=True)
def jars() -> None:
    """Kafka's jars, or the reason why there are none."""
    reason = "java is not installed" if shutil.which("java") is None else JARS.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
