"""The metrics of pipelines, as Prometheus reads them."""

from prometheus_client.parser import text_string_to_metric_families

from tidelog.metrics import Registry
from tidelog.spark.pipeline.definition.expectations import RuleCount
from tidelog.spark.pipeline.running.gauges import PipelineMetrics
from tidelog.spark.pipeline.running.supervision import PipelineStatus, State
from tidelog.spark.source.progress import QueryProgress


def test_state_lag_and_rows_are_metrics() -> None:
    registry = Registry()
    metrics = PipelineMetrics(registry)
    rules = {"a > 0": RuleCount(12, 3)}
    status = PipelineStatus("p", State.RUNNING, "run", restarts=2, rules=rules)
    metrics.changed(status)
    for batch, rows in ((0, 5), (1, 7)):
        metrics.progressed(status, QueryProgress("p", batch, rows, 1.0, 1.0, 42 - batch, 250, 3, 900, 1_500, 4))
    families = text_string_to_metric_families(registry.exposition().decode())
    found = {
        (sample.name, sample.labels.get("state")): sample.value
        for family in families
        for sample in family.samples
        if "quantile" not in sample.labels
    }
    prefix = "tidelog_pipeline_"
    assert found[f"{prefix}state", "running"] == 1
    assert found[f"{prefix}state", "failed"] == 0
    shown = {name.removeprefix(prefix): value for (name, state), value in found.items() if state is None}
    assert shown == {
        "restarts": 2,
        "lag_records": 41,
        "batch_id": 1,
        "batch_timestamp_seconds": 1.5,
        "state_rows": 3,
        "state_bytes": 900,
        "input_rows_total": 12,
        "late_rows_total": 8,
        "expectation_rows_total": 12,
        "expectation_failed_rows_total": 3,
        "batches_total": 2,
        "batch_duration_seconds_count": 2,
        "batch_duration_seconds_sum": 0.5,
    }
