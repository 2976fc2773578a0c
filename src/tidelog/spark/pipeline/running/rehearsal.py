"""What `run` would refuse once Spark has planned the queries, found without a broker and without a row.

The queries are planned as for a run, and then dropped: a schema with a typing mistake, a column that does not exist, a
step that keeps state where it must not, an output mode that Spark does not have for these steps.
"""

from typing import TYPE_CHECKING

from tidelog.spark.internals import check_streaming
from tidelog.spark.pipeline.checks.definition import Problem
from tidelog.spark.pipeline.definition.endpoints import Delta, Iceberg, SqlTable
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError, topic_sinks
from tidelog.spark.pipeline.failing.failures import in_a_sentence
from tidelog.spark.pipeline.failing.routing import ladder_of
from tidelog.spark.pipeline.failing.worker_guard import Guard
from tidelog.spark.pipeline.lake.tables import selected
from tidelog.spark.pipeline.running.computing import Computation
from tidelog.spark.pipeline.running.queries import plan_rows
from tidelog.spark.pipeline.running.refused import RecordLimits
from tidelog.spark.pipeline.schemas.columns import without_registering

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANY_SIZE: int = 2**31 - 1


def plan_problems(pipeline: Pipeline, spark: "SparkSession") -> list[Problem]:
    """The first thing that Spark, or a step, refuses; nothing if the queries can be planned."""
    ladder = ladder_of(pipeline)
    limits = None if ladder is None or not topic_sinks(pipeline) else RecordLimits(_ANY_SIZE)
    computation = Computation(pipeline, ladder, pipeline.connection(), {}, Guard(), limits)
    try:
        with without_registering():
            planned = plan_rows(computation, spark)
            if planned.is_computed:
                has_topics = bool(topic_sinks(pipeline))
                written = computation.for_topics(planned.results) if has_topics else planned.results
                check_streaming(written, pipeline.output_mode)
            for sink in pipeline.sinks:
                if isinstance(sink, Delta | Iceberg | SqlTable):
                    selected(computation.for_tables(planned.results), sink.columns, sink)
    except PipelineError as error:
        return [Problem("steps", str(error))]
    except Exception as error:  # noqa: BLE001 - Spark's or the application's; it is what `validate` reports
        return [Problem("steps", in_a_sentence(error))]
    return []
