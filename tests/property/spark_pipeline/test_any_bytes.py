"""Whatever bytes a record has, each of its rows goes on or has failed: no row fails its batch.

Every step that Python computes comes after every step that can come before it. Steps that Spark computes leave any
bytes in columns of text and in the messages of failures, which is what a batch begins with here; what Spark makes of
them is tested in `tests.integration.spark.test_any_bytes`.
"""

import json
from collections.abc import Callable
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.client.schemas import subjects
from tidelog.spark.pipeline.definition import steps
from tidelog.spark.pipeline.definition.schema_steps import AVRO, JSON_SCHEMA, PROTOBUF, PackSchema, ParseSchema
from tidelog.spark.pipeline.failing.row_functions import run_batches, run_rows
from tidelog.spark.pipeline.schemas import formats
from tidelog.spark.pipeline.schemas.formats import Target, format_of
from tidelog.spark.pipeline.schemas.origins import Origin
from tidelog.spark.pipeline.schemas.rows import RowReader, RowWriter, WrittenColumn

Run = Callable[[pa.RecordBatch], pa.RecordBatch]

ERROR = pa.struct({"type": pa.string(), "message": pa.string(), "retry": pa.bool_()})
HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
MADE = pa.schema({"name": pa.string(), "data": pa.string()})
FIELDS = [{"name": "name", "type": "string"}, {"name": "data", "type": "string"}]
PROPERTIES = {"type": "object", "properties": {"name": {"type": "string"}, "data": {"type": "string"}}}
SCHEMAS: dict[str, Any] = {
    AVRO: {"type": "record", "name": "Pair", "fields": FIELDS},
    JSON_SCHEMA: {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Pair", **PROPERTIES},
    PROTOBUF: 'syntax = "proto3"; message Pair { string name = 1; string data = 2; }',
}
BY_SPARK = {steps.ParseJson, steps.PackJson, steps.ParseDebezium, steps.FailWhen, steps.Expect}
"""Steps that Spark computes itself."""


def _origin(kind: str) -> Origin:
    return Origin(kind, format_of(kind).given_schema(SCHEMAS[kind]))


def _out(batch: pa.RecordBatch, made: pa.Schema) -> pa.Schema:
    kept = [field for field in batch.schema if field.name not in (*made.names, "_error")]
    return pa.schema([*kept, *made, pa.field("_error", ERROR)])


def _rows(function: Callable[[dict[str, Any]], Any], made: pa.Schema, columns: list[str] | None = None) -> Run:
    return lambda batch: run_rows(batch, function, columns, made, _out(batch, made))


def _parse(kind: str) -> Run:
    return _rows(RowReader(_origin(kind), "value", None, False, MADE), MADE, ["value"])


def _pack(kind: str) -> Run:
    target = Target("out", subjects.topic_name, False, False, False)
    writer = RowWriter(WrittenColumn(_origin(kind), target, "value", ("name", "data")), MADE, None)
    return _rows(writer, pa.schema({"value": pa.binary()}), ["name", "data"])


def _echo(row: dict[str, Any]) -> dict[str, Any]:
    return {"name": bytes(row["value"] or b"").decode("utf-8", "surrogateescape"), "data": row["name"]}


def _batch_echo(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [batch.column("value").cast(pa.string()), batch.column("name").cast(pa.binary()).cast(pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=MADE)


PYTHON_STEPS: dict[type, dict[str, Run]] = {
    steps.RowStep: {"row_step": _rows(_echo, MADE)},
    steps.BatchStep: {"batch_step": lambda batch: run_batches(batch, _batch_echo, None, MADE, _out(batch, MADE))},
    ParseSchema: {f"parse_{kind}": _parse(kind) for kind in SCHEMAS},
    PackSchema: {f"pack_{kind}": _pack(kind) for kind in SCHEMAS},
}
ALL_PYTHON = {name: run for kinds in PYTHON_STEPS.values() for name, run in kinds.items()}
BEFORE: dict[str, Run] = {"spark": lambda batch: batch, **ALL_PYTHON}

any_bytes = st.binary(max_size=12) | st.sampled_from(
    [b"\xff\xfe", b"\xed\xa0\x80", b'{"name": "caf\xe9"}', b"\x0e\xc3("]
)
microseconds = st.integers(-(2**63) + 1, 2**63 - 1)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Rows as Spark hands them over: text may be any bytes, and a moment any number."""
    count = draw(st.integers(1, 6))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(st.none() | values, min_size=count, max_size=count))

    def text() -> pa.Array:
        return unchecked_text(column(any_bytes))

    pairs = [draw(st.lists(st.tuples(any_bytes, any_bytes), max_size=2)) for _ in range(count)]
    flat = [pair for row in pairs for pair in row]
    ends = [sum(len(row) for row in pairs[:index]) for index in range(count + 1)]
    names = unchecked_text([name for name, _ in flat])
    headers = pa.StructArray.from_arrays([names, pa.array([value for _, value in flat], pa.binary())], ["key", "value"])
    has_failed = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    error = pa.StructArray.from_arrays(
        [text(), text(), pa.array(column(st.booleans()), pa.bool_())],
        fields=list(ERROR),
        mask=pa.array([not failed for failed in has_failed]),
    )
    columns = {
        "key": pa.array(column(any_bytes), pa.binary()),
        "value": pa.array(column(any_bytes), pa.binary()),
        "headers": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), headers),
        "timestamp": pa.array(column(microseconds), pa.timestamp("us", tz="UTC")),
        "name": text(),
        "data": text(),
        "_error": error,
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def unchecked_text(values: list[bytes | None]) -> pa.Array:
    raw = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), raw.null_count)


def test_every_step_of_this_package_is_in_the_table() -> None:
    assert set(PYTHON_STEPS) | BY_SPARK == set(steps.OWN_STEPS)
    assert set(SCHEMAS) == set(formats._MODULES)


@pytest.mark.parametrize(("first", "second"), list(product(BEFORE, ALL_PYTHON)))
def test_rows_of_any_bytes_go_on_or_have_failed(first: str, second: str) -> None:
    @given(batches())
    @settings(max_examples=examples(60))
    def check(batch: pa.RecordBatch) -> None:
        before = BEFORE[first](batch)
        after = ALL_PYTHON[second](before)
        assert after.num_rows == before.num_rows == batch.num_rows
        failed, failed_before, failed_at_first = (each.column("_error").is_valid() for each in (after, before, batch))
        assert not [index for index in range(len(failed)) if failed_before[index].as_py() and not failed[index].as_py()]
        assert not [
            index for index in range(len(failed)) if failed_at_first[index].as_py() and not failed[index].as_py()
        ]
        # Messages are text by now, whatever they quote, and so is all that these steps have made.
        after.column("_error").validate(full=True)
        assert all(each is None or isinstance(each["type"], str | None) for each in after.column("_error").to_pylist())

    check()


@given(batches())
def test_a_failure_keeps_its_message(batch: pa.RecordBatch) -> None:
    after = ALL_PYTHON["row_step"](batch).column("_error")
    for index, was in enumerate(batch.column("_error")):
        if was.is_valid:
            message = was["message"].cast(pa.binary()).as_py()
            shown = None if message is None else message.decode("utf-8", "replace")
            assert after[index].as_py()["message"] == shown


def test_a_column_that_cannot_be_read_is_named() -> None:
    batch = pa.RecordBatch.from_arrays([unchecked_text([b"well", b"\xff"])], ["note"])
    rows = _rows(lambda row: {"name": row["note"], "data": ""}, MADE)(batch).select(["name", "_error"]).to_pylist()
    assert rows[0] == {"name": "well", "_error": None}
    assert rows[1]["_error"]["type"] == "UnicodeDecodeError"
    assert rows[1]["_error"]["message"].startswith("column 'note' cannot be read: 'utf-8' codec can't decode byte 0xff")


class _Awkward:
    """A value that fails whatever is done with it."""

    def __float__(self) -> float:
        raise AttributeError("not a number")

    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


class _Cancelled(BaseException):
    """Such as asyncio's: not an Exception."""


def test_whatever_a_function_returns_or_raises_fails_one_row() -> None:
    half = pa.schema({"half": pa.float64()})

    def function(row: dict[str, Any]) -> Any:
        if row["number"] == 1:
            return {"half": _Awkward()}
        if row["number"] == 2:
            raise _Cancelled("not this one")
        return {"half": 0.5}

    batch = pa.RecordBatch.from_pydict({"number": [0, 1, 2, 3]})
    rows = run_rows(batch, function, None, half, _out(batch, half)).to_pylist()
    assert [row["half"] for row in rows] == [0.5, None, None, 0.5]
    assert "_Awkward, whose text cannot be shown" in rows[1]["_error"]["message"]
    assert rows[2]["_error"] == {"type": "_Cancelled", "message": "not this one", "retry": True}
    batches_too = run_batches(
        batch, lambda part: function(part.to_pylist()[0]), None, half, _out(batch, half)
    ).to_pylist()
    assert batches_too[2]["_error"]["type"] == "_Cancelled"


def test_json_text_is_what_a_schema_reads() -> None:
    """The pairs above have rows that are well, too."""
    text = json.dumps({"name": "a", "data": "b"}).encode()
    batch = pa.RecordBatch.from_pydict({"value": pa.array([text], pa.binary())})
    (row,) = _parse(JSON_SCHEMA)(batch).to_pylist()
    assert (row["name"], row["data"], row["_error"]) == ("a", "b", None)
