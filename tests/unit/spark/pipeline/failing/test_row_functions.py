"""One bad row fails alone, whatever the function does."""

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from tidelog.spark.pipeline.definition.steps import DROP, RowFailed
from tidelog.spark.pipeline.failing.row_functions import run_batches, run_rows

ERROR = pa.struct({"type": pa.string(), "message": pa.string(), "retry": pa.bool_()})
FIELDS = pa.schema({"half": pa.float64()})
OUT = pa.schema({"number": pa.int64(), "half": pa.float64(), "_error": ERROR})


def _batch(*numbers: int | None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"number": pa.array(numbers, pa.int64())})


def _rows(function: Any, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    return run_rows(batch, function, None, FIELDS, OUT).to_pylist()


def _half(row: dict[str, Any]) -> dict[str, Any]:
    if row["number"] < 0:
        raise ValueError(f"{row['number']} is negative")
    return {"half": row["number"] / 2}


def test_a_row_that_raises_fails_alone() -> None:
    good, bad, last = _rows(_half, _batch(4, -1, 6))
    assert (good["half"], good["_error"]) == (2.0, None)
    assert bad["_error"] == {"type": "ValueError", "message": "-1 is negative", "retry": True}
    assert bad["half"] is None
    assert last["half"] == 3.0


def test_a_forgotten_return_is_a_failure_not_a_lost_row() -> None:
    (row,) = _rows(lambda row: None, _batch(1))
    assert row["_error"]["message"] == "the function returned NoneType, not a dict of columns or DROP"


def test_a_row_is_left_out_on_purpose_only() -> None:
    assert [
        row["number"] for row in _rows(lambda row: DROP if row["number"] == 2 else _half(row), _batch(1, 2, 3))
    ] == [
        1,
        3,
    ]


def test_leaving_out_survives_the_way_to_an_executor() -> None:
    assert pickle.loads(pickle.dumps(DROP)) is DROP
    function = pickle.loads(cloudpickle.dumps(lambda row: DROP))
    assert _rows(function, _batch(1)) == []


def test_a_result_of_another_type_fails_its_row() -> None:
    rows = _rows(lambda row: {"half": "many" if row["number"] == 1 else 0.5}, _batch(1, 2))
    assert rows[0]["_error"]["type"] == "TypeError"
    assert "'half' is double, not 'many'" in rows[0]["_error"]["message"]
    assert rows[1] == {"number": 2, "half": 0.5, "_error": None}


class _Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("bad \udc80 byte"), "bad ? byte"),
        (_Silent(), "_Silent, whose text cannot be shown"),
        (SystemExit("enough"), "enough"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_whatever_a_function_raises_is_the_failure_of_its_row(error: BaseException, message: str) -> None:
    def fail(row: Any) -> Any:
        raise error

    assert [row["_error"]["message"] for row in _rows(fail, _batch(1, 2))] == [message, message]
    rows = run_batches(_batch(1), fail, None, FIELDS, OUT).to_pylist()
    assert rows[0]["_error"]["message"] == message


def test_columns_of_the_users_own_are_seen_whatever_their_names() -> None:
    batch = _batch(1).append_column("_id", pa.array(["x"])).append_column("_record", pa.array(["hidden"]))
    given_columns: list[list[str]] = []
    run_rows(batch, lambda row: given_columns.append(list(row)), None, FIELDS, OUT)
    assert given_columns == [["number", "_id"]]


@pytest.mark.parametrize("result", [{}, {"half": 1.0, "quarter": 0.5}])
def test_a_result_of_other_columns_fails_its_row(result: dict[str, float]) -> None:
    (row,) = _rows(lambda row: result, _batch(1))
    assert "not ['half']" in row["_error"]["message"]


def test_a_failure_can_say_that_trying_again_is_no_use() -> None:
    def refuse(row: dict[str, Any]) -> None:
        raise RowFailed("no such country", retry=False)

    (row,) = _rows(refuse, _batch(1))
    assert row["_error"] == {"type": "RowFailed", "message": "no such country", "retry": False}


def test_a_row_that_failed_before_is_not_tried() -> None:
    batch = _batch(1, 2)
    before = [{"type": "Earlier", "message": "x", "retry": True}, None]
    batch = batch.append_column("_error", pa.array(before, ERROR))
    asked: list[int] = []

    def note(row: dict[str, Any]) -> dict[str, Any]:
        asked.append(row["number"])
        return {"half": 0.0}

    rows = _rows(note, batch)
    assert asked == [2]
    assert rows[0]["_error"]["type"] == "Earlier"


def test_only_chosen_columns_are_handed_over() -> None:
    batch = _batch(1).append_column("other", pa.array(["x"]))
    given_columns: list[list[str]] = []
    run_rows(batch, lambda row: given_columns.append(list(row)), ["other"], FIELDS, OUT)
    assert given_columns == [["other"]]


def _halves(batch: pa.RecordBatch) -> pa.RecordBatch:
    numbers = batch.column("number").to_pylist()
    if any(number < 0 for number in numbers):
        raise ValueError("negative")
    return pa.RecordBatch.from_pydict({"half": pa.array([number / 2 for number in numbers])})


@given(st.lists(st.integers(-3, 50), max_size=40))
def test_a_batch_function_fails_for_exactly_the_rows_to_blame(numbers: list[int]) -> None:
    rows = run_batches(_batch(*numbers), _halves, None, FIELDS, OUT).to_pylist()
    assert [row["number"] for row in rows] == numbers
    for row in rows:
        assert (row["_error"] is not None) == (row["number"] < 0)
        assert row["half"] == (None if row["number"] < 0 else row["number"] / 2)


def test_a_good_batch_is_one_call() -> None:
    calls: list[int] = []

    def count(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch.num_rows)
        return _halves(batch)

    run_batches(_batch(*range(100)), count, None, FIELDS, OUT)
    assert calls == [100]


def test_a_batch_function_must_answer_for_every_row() -> None:
    rows = run_batches(_batch(1, 2), lambda batch: _halves(batch.slice(1)), None, FIELDS, OUT).to_pylist()
    assert rows[0]["_error"]["message"] == "the function returned 0 rows for 1 rows"


def test_a_batch_function_may_return_a_table_and_nothing_else() -> None:
    table = run_batches(_batch(4, 6), lambda batch: pa.table(_halves(batch)), None, FIELDS, OUT).to_pylist()
    assert [row["half"] for row in table] == [2.0, 3.0]
    (row,) = run_batches(_batch(1), lambda batch: batch.to_pydict(), None, FIELDS, OUT).to_pylist()
    assert row["_error"]["message"] == "the function returned dict, not a pyarrow.RecordBatch"
