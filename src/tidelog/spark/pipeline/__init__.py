"""Pipelines: a source, functions of DataFrames, a sink, and a policy for rows that fail, in one small Python file.

    definition    what a file says: source, steps, policy, sink; plain data
    applying      steps made, and applied to rows
    checks        mistakes found before a pipeline runs
    failing       rows that fail: headers, routing, order by key, dead letters and their replay
    lake          tables of a lakehouse: appended to, merged into, compacted and read
    schemas       values with schemas: Avro, JSON Schema, Protobuf
    running       sources and sinks opened, the query run, its progress explained

Names are imported on first use; Spark is not imported before a pipeline runs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.spark.pipeline.applying.schema_steps import (
        pack_avro,
        pack_json_schema,
        pack_protobuf,
        parse_avro,
        parse_json_schema,
        parse_protobuf,
    )
    from tidelog.spark.pipeline.applying.steps import (
        batch_step,
        expect,
        fail_when,
        pack_json,
        parse_debezium,
        parse_json,
        row_step,
    )
    from tidelog.spark.pipeline.definition.endpoints import (
        delta,
        each_batch,
        iceberg,
        maintain,
        merge_changes,
        parquet,
        refreshed,
        spark_format,
        sql_table,
        topic,
    )
    from tidelog.spark.pipeline.definition.pipeline import PipelineError
    from tidelog.spark.pipeline.definition.policy import DeadLetters, RetryLadder
    from tidelog.spark.pipeline.definition.steps import DROP, ERROR, RECORD, RowFailed
    from tidelog.spark.pipeline.failing.guarded import mark_failed
    from tidelog.spark.pipeline.running.declarative import declare
    from tidelog.spark.pipeline.running.pipeline import Pipeline

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
    "expect",
    "fail_when",
    "iceberg",
    "maintain",
    "mark_failed",
    "merge_changes",
    "pack_avro",
    "pack_json",
    "pack_json_schema",
    "pack_protobuf",
    "parquet",
    "parse_avro",
    "parse_debezium",
    "parse_json",
    "parse_json_schema",
    "parse_protobuf",
    "refreshed",
    "row_step",
    "spark_format",
    "sql_table",
    "topic",
]

_HOMES = {
    "DROP": "definition.steps",
    "ERROR": "definition.steps",
    "RECORD": "definition.steps",
    "DeadLetters": "definition.policy",
    "Pipeline": "running.pipeline",
    "PipelineError": "definition.pipeline",
    "RetryLadder": "definition.policy",
    "RowFailed": "definition.steps",
    "batch_step": "applying.steps",
    "declare": "running.declarative",
    "delta": "definition.endpoints",
    "each_batch": "definition.endpoints",
    "expect": "applying.steps",
    "fail_when": "applying.steps",
    "iceberg": "definition.endpoints",
    "maintain": "definition.endpoints",
    "mark_failed": "failing.guarded",
    "merge_changes": "definition.endpoints",
    "pack_avro": "applying.schema_steps",
    "pack_json": "applying.steps",
    "pack_json_schema": "applying.schema_steps",
    "pack_protobuf": "applying.schema_steps",
    "parquet": "definition.endpoints",
    "parse_avro": "applying.schema_steps",
    "parse_debezium": "applying.steps",
    "parse_json": "applying.steps",
    "parse_json_schema": "applying.schema_steps",
    "parse_protobuf": "applying.schema_steps",
    "refreshed": "definition.endpoints",
    "row_step": "applying.steps",
    "spark_format": "definition.endpoints",
    "sql_table": "definition.endpoints",
    "topic": "definition.endpoints",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
