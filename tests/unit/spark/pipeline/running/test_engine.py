"""A batch that fails: whether its error says that it would fail again."""

from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.spark.pipeline import each_batch
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.running.engine import BatchEngine, BatchFailed, BatchRejected
from tidelog.spark.pipeline.running.restarts import is_lasting


def _caused(error, cause):
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PipelineError("delta t writes the columns id, but the rows have key"), BatchRejected),
        (_caused(PipelineError("subject 'orders-value': no answer"), OSError()), BatchFailed),
        (ValueError("out of range"), BatchFailed),
    ],
)
def test_a_mistake_in_the_definition_ends_the_pipeline_and_other_failures_do_not(error, kind):
    def write(rows, batch_id):
        raise error

    batch: Any = SimpleNamespace()
    session: Any = None
    computation: Any = SimpleNamespace(
        table_opener=lambda: None, for_tables=lambda rows: rows, ladder=None, pipeline=SimpleNamespace(steps=())
    )
    engine = BatchEngine(computation, [each_batch(write)], session, is_computed=True)
    with pytest.raises(BatchFailed) as failed:
        engine.process(batch, 0)
    assert failed.type is kind
    assert is_lasting(f"{failed.type.__name__}: {failed.value}") == (kind is BatchRejected)
