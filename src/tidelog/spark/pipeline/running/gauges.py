"""Metrics of the pipelines of a process: state, restarts, rows, lag, batch time and state size."""

from typing import TYPE_CHECKING, Final

from tidelog.metrics import Registry
from tidelog.spark.pipeline.definition.expectations import Counts, RuleCount
from tidelog.spark.pipeline.running.supervision import PipelineStatus, State

if TYPE_CHECKING:
    from tidelog.spark.source.progress import QueryProgress

_PIPELINE: Final = ("pipeline",)
_QUERY: Final = ("pipeline", "query")
_RULE: Final = ("pipeline", "rule")


class PipelineMetrics:
    """An observer that keeps a registry."""

    def __init__(self, registry: Registry) -> None:
        self._state = registry.gauge(
            "tidelog_pipeline_state", "1 for the state that the pipeline is in, else 0.", ("pipeline", "state")
        )
        self._restarts = registry.gauge("tidelog_pipeline_restarts", "Restarts since the process started.", _PIPELINE)
        self._lag = registry.gauge(
            "tidelog_pipeline_lag_records", "Records that were not read by the end of the last micro-batch.", _QUERY
        )
        self._batch = registry.gauge("tidelog_pipeline_batch_id", "Number of the last micro-batch.", _QUERY)
        self._batch_time = registry.gauge(
            "tidelog_pipeline_batch_timestamp_seconds", "When the last micro-batch was triggered, as Unix time.", _QUERY
        )
        self._state_rows = registry.gauge("tidelog_pipeline_state_rows", "Rows in the state of a query.", _QUERY)
        self._state_bytes = registry.gauge("tidelog_pipeline_state_bytes", "Memory of the state of a query.", _QUERY)
        self._rows = registry.counter("tidelog_pipeline_input_rows", "Rows read.", _QUERY)
        self._late = registry.counter(
            "tidelog_pipeline_late_rows", "Rows dropped by Spark because they were behind the watermark.", _QUERY
        )
        self._batches = registry.counter("tidelog_pipeline_batches", "Micro-batches completed.", _QUERY)
        self._rule_rows = registry.counter(
            "tidelog_pipeline_expectation_rows", "Rows tested by an expectation, by its name.", _RULE
        )
        self._rule_failed = registry.counter(
            "tidelog_pipeline_expectation_failed_rows", "Rows that failed an expectation, by its name.", _RULE
        )
        self._counted: dict[str, Counts] = {}
        self._seconds = registry.summary(
            "tidelog_pipeline_batch_duration_seconds", "Durations of micro-batches.", _QUERY
        )

    def changed(self, status: PipelineStatus) -> None:
        """Show the new state."""
        for state in State:
            self._state.labels(status.pipeline, state.value).set(state is status.state)
        self._restarts.labels(status.pipeline).set(status.restarts)

    def progressed(self, status: PipelineStatus, progress: "QueryProgress") -> None:
        """Count a micro-batch."""
        names = (status.pipeline, progress.name)
        if progress.lag_records is not None:
            self._lag.labels(*names).set(progress.lag_records)
        self._batch.labels(*names).set(progress.batch_id)
        self._batch_time.labels(*names).set(progress.timestamp_ms / 1000)
        self._state_rows.labels(*names).set(progress.state_rows)
        self._state_bytes.labels(*names).set(progress.state_bytes)
        self._rows.labels(*names).increment(progress.input_rows)
        self._late.labels(*names).increment(progress.late_rows)
        self._batches.labels(*names).increment()
        for rule, count in status.rules.items():
            before = self._counted.get(status.pipeline, {}).get(rule, RuleCount())
            self._rule_rows.labels(status.pipeline, rule).increment(count.evaluated - before.evaluated)
            self._rule_failed.labels(status.pipeline, rule).increment(count.failed - before.failed)
        self._counted[status.pipeline] = status.rules
        self._seconds.labels(*names).observe(progress.batch_ms / 1000)
