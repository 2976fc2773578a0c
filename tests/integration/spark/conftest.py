"""One Spark session for each test process, and a broker for each module: both take seconds to start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidelog.spark import spark_session
from tidelog.testing import Broker


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session of two local cores."""
    settings = {
        "spark.driver.memory": "1g",
        # Tests are over before the better compiler has earned what it costs.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "ERROR",
    }
    session = spark_session("tests", master="local[2]", settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker in a process of its own."""
    with Broker(process=True) as running:
        yield running
