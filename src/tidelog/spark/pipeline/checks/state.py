"""Steps that keep state over batches, in pipelines with a failure policy: what is possible, and the reason if not.

State lives in a streaming plan. A policy that hands each batch to a function computes batches one by one, and a window
with a watermark would cover only one batch and still look right. In a streaming plan, the failed rows are a second
branch: the steps before the state are computed twice, for the rows that succeeded and for those that failed, and must
give the same result both times. Steps of this package do; a user's function may not, and a row could be lost.

Spark's plan shows such steps without running them. An aggregate without a watermark is no state: a stream in append
mode cannot have one, so it is meant per batch. In Spark Connect the plan cannot be seen, and need not be: what is
refused here needs a function for each batch, and is refused there for that.
"""

from typing import TYPE_CHECKING, Any, Final

from tidelog.spark.internals import analyzed_plan
from tidelog.spark.pipeline.checks.refusals import Trait, refused, traits_of
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError

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


def check_state(pipeline: Pipeline, rows: "DataFrame") -> bool:
    """Whether the steps that made the stream `rows` keep state over batches. Raise PipelineError if they must not."""
    found = stateful_step(rows)
    if found is None:
        return False
    reasons = refused({**traits_of(pipeline), Trait.STATE: found}, Trait.STATE)
    if reasons:
        raise PipelineError(
            f"a step keeps state over batches ({found}), which is not possible here: {reasons[0][1]}. Write the rows "
            "to a topic, and let a second pipeline read it"
        )
    return True


def stateful_step(rows: "DataFrame") -> str | None:
    """What keeps state in the steps that made the stream `rows`; None in Spark Connect, where that cannot be seen."""
    plan = analyzed_plan(rows)
    return None if plan is None else _stateful(plan)


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
