"""Mistakes in expectations. Pure; whether a condition is one, only Spark knows."""

from collections.abc import Iterator

from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.definition.steps import ON_UNMET, Expect, expectations_of


def expectation_problems(step: Expect, pipeline: Pipeline) -> Iterator[str]:
    """What is wrong with one expectation of a pipeline."""
    if not isinstance(step.condition, str) or not step.condition.strip():
        yield f"expect({step.condition!r}): the condition must be SQL, such as 'amount > 0'"
        return
    if not isinstance(step.rule, str) or not step.rule.strip():
        yield f"expect({step.condition!r}, name={step.rule!r}): the name must be a text"
        return
    if step.on_failure not in ON_UNMET:
        yield f"{step.name}: on_failure={step.on_failure!r} must be one of {', '.join(ON_UNMET)}"
    if step.on_failure == "dead_letter" and pipeline.on_failure is None:
        yield f"{step.name}: dead letters need a topic: set on_failure=DeadLetters(…) or RetryLadder(…)"
    yield from _limit(step)
    same = [each for each in expectations_of(pipeline.steps) if each.rule == step.rule]
    if len(same) > 1 and same[0] is not step:
        yield f"{step.name}: another expectation is counted by this name: give each a name of its own"


def _limit(step: Expect) -> Iterator[str]:
    limit = step.fail_above
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 <= limit < 1:
        yield f"{step.name}: fail_above={limit!r} must be a share from 0 to below 1, such as 0.05 for 5 %"
    elif step.on_failure == "fail":
        yield f"{step.name}: fail_above={limit!r} has no effect: with on_failure='fail' the first row stops it"
