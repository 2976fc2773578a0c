"""JSON lines and CSV as records to produce: what is read, and how a line that is no record is named."""

import json

import pytest

from tidelog.cli._record_input import BadLines, CsvRows, Input, JsonLines, NewRecord, make_reader
from tidelog.cli.consume import as_json
from tidelog.cli.errors import CommandError
from tidelog.client.aio.consumer.types import ConsumerRecord, TimestampType


def json_records(*lines: str) -> tuple[list[NewRecord], str]:
    reader = JsonLines(BadLines.STOP)
    reader.partitions = 3
    return list(reader.records([line.encode() for line in lines])), reader.problem


def csv_records(text: str, key_column: str | None = None, null: str | None = None) -> tuple[list[NewRecord], str]:
    reader = CsvRows(key_column, null, ",", BadLines.STOP)
    found = list(reader.records([line.encode() for line in text.split("\n")]))
    return [*found, *reader.end()], reader.problem


def test_what_consume_prints_as_json_is_read_back():
    headers = (("a", b"1"), ("b", None), ("c", b"\xff"))
    record = ConsumerRecord("t", 2, 7, 1_700_000_000_000, b"\xfe", None, headers, TimestampType.CREATE_TIME, -1)
    found, problem = json_records(json.dumps(as_json(record)))
    assert (found, problem) == ([NewRecord(b"\xfe", None, headers, 1_700_000_000_000, 2)], "")


def test_values_that_are_no_text_are_stored_as_json():
    found, _ = json_records(
        '{"value": {"pieces": 3, "é": null}}', "", '{"value": 1.5, "key": true}', '{"headers": {"a": "b"}}'
    )
    assert found == [
        NewRecord(None, '{"pieces":3,"é":null}'.encode()),
        NewRecord(b"true", b"1.5"),
        NewRecord(None, None, (("a", b"b"),)),
    ]


def test_timestamps_are_milliseconds_or_iso_8601():
    found, _ = json_records(
        '{"timestamp": 5}', '{"timestamp": "1970-01-01T00:00:01Z"}', '{"timestamp": "1700000000000"}'
    )
    assert [each.timestamp_ms for each in found] == [5, 1000, 1_700_000_000_000]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "not JSON: '{'"),
        ("[1]", "not an object with key and value: '[1]'"),
        ('{"valu": 1}', "'valu' is not a field of a record: key, value"),
        ('{"value": 1, "value_schema_id": 3}', "read without --schema-registry"),
        ('{"value": 1, "value_base64": "AA=="}', "both value and value_base64"),
        ('{"value_base64": "?"}', "value_base64 '?' is not base64"),
        ('{"timestamp": "soon"}', "timestamp 'soon' is neither"),
        ('{"timestamp": -1}', "timestamp -1 is neither"),
        ('{"partition": 3}', "partition 3 is none of the topic, which has 0 to 2"),
        ('{"partition": "x"}', "partition 'x' is not a number"),
        ('{"headers": "x"}', "headers 'x' are neither"),
        ('{"headers": [{"value": "x"}]}', "a header is"),
        ('{"value": "\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_a_line_that_is_no_record_is_named_and_ends_the_input(line, problem):
    found, said = json_records('{"value": "first"}', line, '{"value": "after"}')
    assert found == [NewRecord(None, b"first")]
    assert said.startswith("line 2: ")
    assert problem in said


def test_bad_lines_can_be_left_out_and_are_counted():
    reader = JsonLines(BadLines.SKIP)
    assert [each.value for each in reader.records([b"{", b'{"value": "x"}', b"?"])] == [b"x"]
    assert (reader.skipped, reader.problem) == (2, "")


def test_columns_of_csv_have_the_names_of_what_they_are():
    found, problem = csv_records("key,value,timestamp,partition,header.src\na,b,1000,1,shop\n,,,,\n")
    assert problem == ""
    assert found == [NewRecord(b"a", b"b", (("src", b"shop"),), 1000, 1), NewRecord(b"", b"", (("src", b""),))]


def test_other_columns_are_the_value_and_one_of_them_may_be_the_key():
    found, _ = csv_records('id,name\n1,"Ann ""A""\nB"\n2,\n', key_column="id", null="")
    assert found == [
        NewRecord(b"1", b'{"id":"1","name":"Ann \\"A\\"\\nB"}'),
        NewRecord(b"2", b'{"id":"2","name":null}'),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1\n", "line 2: 1 cells under 2 names"),
        ('a,b\n1,2\n"x,3\n', "line 3: a quote is not closed"),
        ("value,timestamp\nx,soon\n", "line 2: timestamp 'soon'"),
    ],
)
def test_a_row_that_is_no_record_is_named(text, problem):
    assert problem in csv_records(text)[1]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"kind": Input.JSON, "key_separator": ":"}, "--key-separator is for --input lines"),
        ({"kind": Input.JSON, "null_marker": ""}, "JSON has null"),
        ({"kind": Input.LINES, "key_column": "id"}, "--key-column and --delimiter are for --input csv"),
        ({"kind": Input.CSV, "delimiter": ";;"}, "--delimiter ';;' is not one character"),
    ],
)
def test_options_of_another_input_are_refused(options, complaint):
    usual = {"key_separator": None, "null_marker": None, "key_column": None, "delimiter": ","}
    with pytest.raises(CommandError, match=complaint):
        make_reader(bad_lines=BadLines.STOP, **{**usual, **options})


def test_a_csv_without_the_key_column_is_refused():
    with pytest.raises(CommandError, match="--key-column 'id' is none of the columns: a, b"):
        csv_records("a,b\n1,2", key_column="id")
