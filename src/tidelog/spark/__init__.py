"""Spark: topics as DataFrames, in batch and in streams, exactly once; and pipelines made of them.

    data_source   the format "tidelog": Spark's Python Data Source API
    options       the connector's options, read and checked
    source        reading: which offsets, split how, fetched and decoded into Arrow
    sink          writing: one transaction per micro-batch, written by all tasks, committed by the driver
    pipeline      sources, functions of DataFrames, sinks and a policy for rows that fail
    session       a Spark session with the right Python, Java and settings

Names are imported on first use: executors import this package with every task.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.spark.session import spark_session
    from tidelog.spark.sink.each_batch import write_each_batch
    from tidelog.spark.sink.placement import place_rows
    from tidelog.spark.source.progress import ProgressListener

__all__ = ["ProgressListener", "place_rows", "spark_session", "write_each_batch"]

_HOMES = {
    "ProgressListener": "source.progress",
    "place_rows": "sink.placement",
    "spark_session": "session",
    "write_each_batch": "sink.each_batch",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
