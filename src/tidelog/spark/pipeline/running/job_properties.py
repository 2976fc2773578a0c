"""Local properties of Spark jobs, set for a block and put back after it.

The session is the caller's: a property that outlived the block would mark jobs that have nothing to do with the
pipeline. A batch write of the caller, for one, would be taken for a batch of a backfill and refused.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def job_properties(spark: "SparkSession", properties: Mapping[str, str]) -> Iterator[None]:
    """Jobs that this thread submits in the block, and queries that it starts there, have these properties."""
    # PySpark's types do not say that None is what is there when a property is not set, and what unsets it.
    context: Any = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in properties}
    try:
        for name, value in properties.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)
