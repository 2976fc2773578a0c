"""The metrics of two brokers, read once for all tests here."""

import asyncio

import pytest

from tests.compat.metrics.use import Labels, label_names


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Labels:
    """The sets of labels of each name that is exported."""
    return asyncio.run(label_names(tmp_path_factory.mktemp("brokers")))
