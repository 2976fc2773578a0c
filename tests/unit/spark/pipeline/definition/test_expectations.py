"""What is counted of expectations, and when a batch has too many rows that fail."""

import pytest

from tidelog.spark.pipeline import DeadLetters, Pipeline, expect, parquet, topic
from tidelog.spark.pipeline.checks.definition import check
from tidelog.spark.pipeline.definition.expectations import RuleCount, added, counts_in, exceeded, metric_of
from tidelog.spark.pipeline.definition.pipeline import Step
from tidelog.spark.pipeline.running.batch_counts import BatchCounts


def problems(*steps: Step, **changes: object) -> list[str]:
    pipeline = Pipeline("p", **{"source": topic("a"), "sink": topic("b"), "steps": steps, **changes})  # type: ignore[arg-type]
    return [str(problem) for problem in check(pipeline)]


def test_counts_are_found_beside_what_else_is_observed() -> None:
    observed = {metric_of("a > 0"): {"evaluated": 5, "failed": 2}, "mine": {"evaluated": 7}, metric_of("b"): {}}
    assert counts_in(observed) == {"a > 0": RuleCount(5, 2), "b": RuleCount()}


def test_counts_of_batches_are_added() -> None:
    assert added({"a": RuleCount(5, 2)}, {"a": RuleCount(1, 1), "b": RuleCount(3, 0)}) == {
        "a": RuleCount(6, 3),
        "b": RuleCount(3, 0),
    }


@pytest.mark.parametrize(("failed", "is_refused"), [(4, False), (5, False), (6, True)])
def test_a_batch_is_refused_above_the_limit_and_not_at_it(failed: int, is_refused: bool) -> None:
    rules = [expect("a > 0", name="positive", fail_above=0.05), expect("b > 0")]
    reason = exceeded(rules, {"positive": RuleCount(100, failed), "b > 0": RuleCount(100, 100)})
    assert (reason is not None) is is_refused
    if reason is not None:
        assert reason == (
            "expectation 'positive' (a > 0): 6 of 100 rows of the batch fail, 6.00%, and fail_above=0.05 allows 5.00%; "
            "nothing of the batch is written"
        )


def test_a_batch_without_rows_is_never_refused() -> None:
    assert exceeded([expect("a > 0", fail_above=0.0)], {"a > 0": RuleCount()}) is None


def test_counts_of_a_batch_are_taken_once() -> None:
    counts = BatchCounts()
    counts.note(1, {"a": RuleCount(5, 2)})
    counts.note(1, {"a": RuleCount(4, 1)})
    assert counts.take(1) == {"a": RuleCount(4, 1)}
    assert counts.take(1) == {}


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (expect(""), "steps[1]: expect(''): the condition must be SQL, such as 'amount > 0'"),
        (expect("a", name=" "), "steps[1]: expect('a', name=' '): the name must be a text"),
        (
            expect("a", on_failure="ignore"),  # type: ignore[arg-type]
            "steps[1]: expect('a'): on_failure='ignore' must be one of warn, drop, dead_letter, fail",
        ),
        (
            expect("a", on_failure="dead_letter"),
            "steps[1]: expect('a'): dead letters need a topic: set on_failure=DeadLetters(…) or RetryLadder(…)",
        ),
        (
            expect("a", fail_above=5),
            "steps[1]: expect('a'): fail_above=5 must be a share from 0 to below 1, such as 0.05 for 5 %",
        ),
        (
            expect("a", on_failure="fail", fail_above=0.1),
            "steps[1]: expect('a'): fail_above=0.1 has no effect: with on_failure='fail' the first row stops it",
        ),
    ],
)
def test_mistakes_are_named(step: Step, problem: str) -> None:
    assert problems(step) == [problem]


def test_two_expectations_of_one_name_are_refused() -> None:
    assert problems(expect("a > 0"), expect("b > 0", name="a > 0")) == [
        "steps[2]: expect('a > 0'): another expectation is counted by this name: give each a name of its own"
    ]


def test_a_limit_and_files_are_refused() -> None:
    found = problems(expect("a", fail_above=0.1), sink=parquet("/out"))
    assert found == [
        (
            "sink: parquet /out is written by Spark, which cannot hold back a batch for expect('a'): "
            "write to a topic, then to files"
        )
    ]


def test_dead_letters_of_expectations_need_no_more_than_a_policy() -> None:
    assert problems(expect("a", on_failure="dead_letter"), on_failure=DeadLetters()) == []
