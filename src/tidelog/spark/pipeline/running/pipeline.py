"""A definition with its verbs: what a pipeline's file makes. Importing it starts nothing and needs no Spark."""

from typing import TYPE_CHECKING

from tidelog.spark.pipeline.definition import pipeline as definition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Pipeline(definition.Pipeline):
    """A source, a chain of functions from DataFrame to DataFrame, a sink, and a policy for rows that fail."""

    def transform(self, rows: "DataFrame", **tables: "DataFrame") -> "DataFrame":
        """The steps alone, for tests: rows that fail carry their reason in the column `_error`."""
        from tidelog.spark.pipeline.applying.chain import apply_steps

        return apply_steps(self.steps, rows, tables)

    def run(self, *, once: bool = False, bootstrap_servers: str | None = None, restarts: int | None = None) -> None:
        """Run in this process until stopped (or, with `once`, until what is there now is done): for `spark-submit`.

        A failed query is restarted up to `restarts` times without progress in between, by default 10; -1 has no limit.
        """
        from tidelog.spark.pipeline.running.restarts import RESTARTS_DEFAULT
        from tidelog.spark.pipeline.running.run import run_pipeline

        limit = RESTARTS_DEFAULT if restarts is None else restarts
        run_pipeline(self, once=once, bootstrap_servers=bootstrap_servers, restarts=limit)
