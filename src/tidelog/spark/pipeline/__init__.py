"""Pipelines: a source, functions of DataFrames, a sink, and a policy for rows that fail, in one small Python file.

    definition endpoints policy steps    what a file says; plain data
    durations headers routing ordering parked_index   what becomes of a failing row; pure
    loading checks plan                  a file looked at, checked and explained, without Spark
    chain guarded json_steps columns     steps and policy as Spark's columns
    ladder_source running staged delta_tables   opening sources and sinks, and running the query
    settling parked_rows parked_hint     order by key, batch by batch
    replay                               dead letters sent back; no Spark

Nothing is imported until it is asked for, and nothing of Spark before a pipeline runs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.spark.pipeline.declarative import declare
    from tidelog.spark.pipeline.definition import Pipeline, PipelineError
    from tidelog.spark.pipeline.endpoints import delta, each_batch, parquet, spark_format, topic
    from tidelog.spark.pipeline.guarded import mark_failed
    from tidelog.spark.pipeline.policy import DeadLetters, RetryLadder
    from tidelog.spark.pipeline.steps import (
        DROP,
        ERROR,
        RECORD,
        RowFailed,
        batch_step,
        fail_when,
        pack_json,
        parse_json,
        row_step,
    )

__all__ = [
    "DROP",
    "ERROR",
    "RECORD",
    "DeadLetters",
    "Pipeline",
    "PipelineError",
    "RetryLadder",
    "RowFailed",
    "batch_step",
    "declare",
    "delta",
    "each_batch",
    "fail_when",
    "mark_failed",
    "pack_json",
    "parquet",
    "parse_json",
    "row_step",
    "spark_format",
    "topic",
]

_HOMES = {
    "DROP": "steps",
    "ERROR": "steps",
    "RECORD": "steps",
    "DeadLetters": "policy",
    "Pipeline": "definition",
    "PipelineError": "definition",
    "RetryLadder": "policy",
    "RowFailed": "steps",
    "batch_step": "steps",
    "declare": "declarative",
    "delta": "endpoints",
    "each_batch": "endpoints",
    "fail_when": "steps",
    "mark_failed": "guarded",
    "pack_json": "steps",
    "parquet": "endpoints",
    "parse_json": "steps",
    "row_step": "steps",
    "spark_format": "endpoints",
    "topic": "endpoints",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
