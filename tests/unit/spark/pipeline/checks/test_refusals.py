"""What cannot be together in a pipeline: one table, which the page has, too."""

from pathlib import Path
from string import Formatter

import pytest

from tidelog.spark.pipeline import DeadLetters, Pipeline, RetryLadder, delta, parquet, refreshed, row_step, topic
from tidelog.spark.pipeline.checks.refusals import REFUSALS, Refusal, Trait, refusals_table, refused, traits_of

PAGE = Path(__file__).parents[5] / "docs" / "pipelines" / "state.md"


@row_step("n long")
def count(row: dict[str, object]) -> dict[str, object]:
    return {"n": 1}


def test_the_page_has_the_table() -> None:
    assert refusals_table() in PAGE.read_text(encoding="utf-8"), "write it anew from refusals_table()"


@pytest.mark.parametrize(
    "refusal", REFUSALS, ids=lambda each: " + ".join(sorted(trait.name for trait in each.together))
)
def test_a_refusal_names_what_it_refuses(refusal: Refusal) -> None:
    named = {name for _, name, _, _ in Formatter().parse(refusal.reason) if name}
    assert named <= {trait.name for trait in refusal.together}
    found = dict.fromkeys(refusal.together, "the culprit")
    assert (refusal.setting, refusal.sentence(found)) in refused(found)
    assert len(refusal.together) >= 2
    for trait in refusal.together:
        assert (refusal.setting, refusal.reason) not in refused({each: "" for each in found if each is not trait})


def test_traits_of_a_definition() -> None:
    pipeline = Pipeline(
        "p",
        source=parquet("/in", schema="id long"),
        steps=[count],
        tables={"rates": refreshed(topic("rates"), every="1h")},
        sink=[topic("out"), delta("/table"), parquet("/files")],
        on_failure=RetryLadder(keep_order_by_key=True),
        output_mode="update",
    )
    assert traits_of(pipeline) == {
        Trait.POLICY: "on_failure",
        Trait.RETRIES: "RetryLadder",
        Trait.ORDER: "keep_order_by_key",
        Trait.NO_RECORDS: "parquet /in",
        Trait.OTHER_SINK: "delta /table",
        Trait.TABLE: "delta /table",
        Trait.FILES: "parquet /files",
        Trait.UPDATES: "update",
        Trait.REFRESHED: "rates",
        Trait.ROW_FUNCTION: "count",
    }
    assert traits_of(Pipeline("p", source=topic("a"), sink=topic("b"), on_failure=DeadLetters())) == {
        Trait.POLICY: "on_failure"
    }
