"""Rejects steps with state in pipelines that compute each batch separately.

With a failure policy each batch is computed alone: windows with a watermark, for example, would cover only that batch
and still look right. Spark's plan shows such steps without running them. An aggregate without a watermark is allowed: a
stream in append mode cannot have one, so it is meant per batch.
"""

from typing import TYPE_CHECKING, Any, Final

from tidelog.spark.pipeline.definition.pipeline import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATEFUL: Final = frozenset(
    {
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "EventTimeWatermark",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)


def refuse_state(rows: "DataFrame") -> None:
    """Raise PipelineError if the steps that made the stream `rows` keep state over batches."""
    found = _stateful(rows._jdf.queryExecution().analyzed())
    if found is not None:
        raise PipelineError(
            f"a step keeps state over batches ({found}), which is not possible with on_failure: write the clean rows "
            "to a topic, and let a second pipeline without a policy read it"
        )


def _stateful(plan: Any) -> str | None:
    if not plan.isStreaming():
        return None
    name = str(plan.nodeName())
    if name in _STATEFUL:
        return name
    children = plan.children()
    inner = [children.apply(index) for index in range(children.size())]
    if name == "Join" and all(child.isStreaming() for child in inner):
        return "a join of two streams"
    return next((found for child in inner if (found := _stateful(child)) is not None), None)
