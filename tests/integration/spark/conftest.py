"""One Spark session for each test process, and a broker for each module: both take seconds to start."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidelog.spark import spark_session
from tidelog.spark.session import end_java
from tidelog.testing import Broker

# For all drivers that tests start: they are over before the better compiler has earned what it costs.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of two local cores."""
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    }
    yield spark_session("tests", master="local[2]", settings=settings, local_checkpoints=True)
    end_java()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker in a process of its own."""
    with Broker(process=True) as running:
        yield running
