"""The pipelines that `tidelog table create` writes: which columns they have, and that they are sound. No Spark."""

import json

import pytest

from tidelog.cli.errors import CommandError
from tidelog.cli.table._definition import TopicTable, inferred_columns, location, parse_columns, pipeline_file
from tidelog.spark.pipeline.checks.definition import check
from tidelog.spark.pipeline.definition.endpoints import Changes, Delta, Iceberg
from tidelog.spark.pipeline.definition.loading import load_pipeline


def table(**more):
    given = {
        "table_format": "iceberg",
        "columns": parse_columns("id long, amount double"),
        "dead_letters": "orders.dlq",
    }
    return TopicTable("orders", "orders", **{**given, "warehouse": "/data/lake", "bootstrap_servers": "h:9092", **more})


def columns(*values):
    return dict(inferred_columns([json.dumps(each).encode() for each in values]))


def test_columns_are_those_of_the_values_that_are_there():
    assert columns({"id": 1, "name": "a", "ok": True, "at": None}) == {
        "id": "long",
        "name": "string",
        "ok": "boolean",
        "at": "string",
    }
    assert columns({"a": 1}, {"b": 0.5}, {"a": 2.5}) == {"a": "double", "b": "double"}
    assert columns({"a": 1}, {"a": "x"}) == {"a": "string"}
    assert columns({"a": 2**70}) == {"a": "string"}
    assert columns({"a": None}, {"a": 1}) == {"a": "long"}


def test_nested_values_are_structs_and_arrays():
    found = columns({"by": {"x": 1}, "tags": []}, {"by": {"y n": [0.5, 1]}, "tags": ["a"]}, {"by": None})
    assert found == {"by": "struct<x: long, `y n`: array<double>>", "tags": "array<string>"}
    assert columns({"a": {"x": 1}}, {"a": 1}) == {"a": "string"}
    assert columns({"a": [1]}, {"a": {"x": 1}}) == {"a": "string"}
    assert columns({"a": {}}) == {"a": "string"}


def test_what_is_no_object_says_nothing_of_columns():
    assert inferred_columns([None, b"no json", b"[1]", b'{"id": 1}']) == (("id", "long"),)
    with pytest.raises(CommandError, match="--schema"):
        inferred_columns([None, b"\xff"])


def test_columns_are_read_from_the_option():
    assert parse_columns("id long, tags array<struct<a: int, b: string>>, p decimal(10, 2), `y n` string") == (
        ("id", "long"),
        ("tags", "array<struct<a: int, b: string>>"),
        ("p", "decimal(10, 2)"),
        ("y n", "string"),
    )
    for text in ("id", "id long,", ""):
        with pytest.raises(CommandError, match="a name and a type"):
            parse_columns(text)


@pytest.mark.parametrize("key", [(), ("id",), ("id", "amount")])
@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_the_file_is_a_sound_pipeline(tmp_path, monkeypatch, key, table_format):
    file = tmp_path / "table.py"
    described = table(table_format=table_format, key=key)
    described.check()
    file.write_text(pipeline_file(described))
    compile(file.read_text(), "table.py", "exec")
    monkeypatch.chdir(tmp_path)
    pipeline = load_pipeline(str(file))
    assert not [each for each in check(pipeline) if not each.is_warning]
    (sink,) = pipeline.sinks
    assert isinstance(sink, Changes) is bool(key)
    written = sink.table if isinstance(sink, Changes) else sink
    assert isinstance(written, Iceberg if table_format == "iceberg" else Delta)
    assert written.columns == ("id", "amount", "_partition", "_offset", "_timestamp")
    assert written.maintenance is not None
    assert location(described) in (getattr(written, "table", None), getattr(written, "path", None))


def test_names_are_quoted_wherever_they_come_from(tmp_path):
    """A name is data: it ends no string and begins no code."""
    nasty = 'it\'s "a" `name`'
    described = table(columns=((nasty, "long"),), key=(nasty,), warehouse="/d'ata")
    file = tmp_path / "table.py"
    file.write_text(pipeline_file(described))
    compile(file.read_text(), "table.py", "exec")
    pipeline = load_pipeline(str(file))
    (sink,) = pipeline.sinks
    assert isinstance(sink, Changes)
    assert sink.key == (nasty,)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"table_format": "hudi"}, "--format hudi is none of iceberg, delta"),
        ({"key": ("idd",)}, "--key idd is not a column of the values, which have id, amount"),
        ({"columns": (("_offset", "long"),)}, "column _offset"),
        ({"columns": (("a", "long"), ("a", "long"))}, "column a"),
    ],
)
def test_what_cannot_be_a_table_is_refused(more, problem):
    with pytest.raises(CommandError, match=problem):
        table(**more).check()
