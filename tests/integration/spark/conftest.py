"""A broker for each module."""

import os
import tempfile
from collections.abc import Iterator

import pytest

from tidelog.spark.delegation import DIRECTORY_VARIABLE
from tidelog.testing import Broker

# For all drivers that tests start: they are over before the better compiler has earned what it costs.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# The processes of a driver inherit this from its JVM, which the first test starts.
_TOKENS = tempfile.TemporaryDirectory(prefix="tidelog-tokens-")
os.environ.setdefault(DIRECTORY_VARIABLE, _TOKENS.name)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker in a process of its own."""
    with Broker(process=True) as running:
        yield running
