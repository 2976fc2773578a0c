"""What each layer of a pipeline costs: the same JSON records, with one layer more in each measure.

A pipeline with a policy writes the rows that fail into topics of its own. Here none fails: what is measured is what
the policy costs when there is nothing for it to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from benchmarks.spark_lab import PARTITIONS, SparkLab, rows_per_second

if TYPE_CHECKING:
    from tidelog.spark.pipeline import Pipeline

TOPIC = "json"
BATCHES = 3
SCHEMA = "id long, name string, amount long, note string"


def _pipeline(lab: SparkLab, target: str | None, *, has_steps: bool, delivery: str, has_policy: bool) -> Pipeline:
    from tidelog.spark.pipeline import DeadLetters, Pipeline, pack_json, parse_json, spark_format, topic

    return Pipeline(
        "layers",
        source=topic(TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=lab.rows_of[TOPIC] // BATCHES),
        steps=[parse_json(SCHEMA), pack_json(key="id")] if has_steps else [],
        sink=spark_format("noop") if target is None else topic(target, delivery=delivery),
        on_failure=DeadLetters() if has_policy else None,
    )


def _measure(
    *, has_steps: bool = True, has_sink: bool = True, delivery: str = "exactly-once", has_policy: bool = False
) -> Callable[[SparkLab], float]:
    def run(lab: SparkLab) -> float:
        target = lab.new_topic() if has_sink else None
        pipeline = _pipeline(lab, target, has_steps=has_steps, delivery=delivery, has_policy=has_policy)
        triggers = lab.run_pipeline(pipeline)
        if sum(trigger.rows for trigger in triggers) != lab.rows_of[TOPIC]:
            raise RuntimeError(f"the pipeline read {triggers}, but the topic has {lab.rows_of[TOPIC]} rows")
        if target is not None:
            if delivery != "exactly-once":
                lab.require_rows(target, PARTITIONS, lab.rows_of[TOPIC])
            lab.drop_topic(target)
        return rows_per_second(triggers)

    return run


MEASURES: dict[str, Callable[[SparkLab], float]] = {
    "layer-source": _measure(has_steps=False, has_sink=False),
    "layer-steps": _measure(has_sink=False),
    "layer-sink": _measure(delivery="at-least-once"),
    "layer-once": _measure(),
    "layer-policy": _measure(has_policy=True),
}
