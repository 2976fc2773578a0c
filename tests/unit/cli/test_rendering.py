"""What commands print, given what they found."""

import base64
import re
from pathlib import Path

from tidelog import cli
from tidelog.cli.cluster._directory import BrokerRow
from tidelog.cli.consume import Shown, as_json, as_line
from tidelog.cli.output import bytes_for_json, live_table, print_table, table_lines, uuid_text
from tidelog.cli.progress import progress
from tidelog.client import ConsumerRecord, TimestampType

RECORD = ConsumerRecord("t", 3, 5, 42, b"k", b"v", (), TimestampType.CREATE_TIME, -1)
NOTHING = Shown(timestamp=False, partition=False, offset=False, headers=False, key=False, separator=b"\t")
EVERYTHING = Shown(timestamp=True, partition=True, offset=True, headers=True, key=True, separator=b"\t")


def test_a_record_is_its_value_and_a_newline():
    assert as_line(RECORD, NOTHING) == b"v\n"


def test_every_part_is_shown_in_the_order_of_kafkas_consumer():
    record = RECORD._replace(headers=(("a", b"1"), ("b", None)))
    assert as_line(record, EVERYTHING) == b"CreateTime:42\tPartition:3\tOffset:5\ta:1,b:null\tk\tv\n"


def test_a_timestamp_of_the_broker_is_distinguished_from_the_producers():
    record = RECORD._replace(timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert as_line(record, NOTHING._replace(timestamp=True)) == b"LogAppendTime:42\tv\n"
    assert as_json(record)["timestamp_type"] == "LogAppendTime"


def test_nulls_and_missing_headers_have_their_words():
    shown = NOTHING._replace(key=True, headers=True, separator=b"|")
    assert as_line(RECORD._replace(key=None, value=None), shown) == b"NO_HEADERS|null|null\n"


def test_json_keeps_bytes_that_are_no_text():
    record = RECORD._replace(key=None, value=b"\xff", headers=(("h", b"1"), ("n", None)))
    assert as_json(record) == {
        "topic": "t",
        "partition": 3,
        "offset": 5,
        "timestamp": 42,
        "timestamp_type": "CreateTime",
        "key": None,
        "value_base64": base64.b64encode(b"\xff").decode(),
        "headers": [{"name": "h", "value": "1"}, {"name": "n", "value": None}],
    }
    assert bytes_for_json("value", "ü".encode()) == {"value": "ü"}


def test_tables_align_and_put_numbers_to_the_right(capsys):
    print_table(("NAME", "COUNT"), [("a", 5), ("longer", 1000)])
    assert capsys.readouterr().out == "NAME    COUNT\na           5\nlonger   1000\n"


def test_a_cell_without_a_number_does_not_turn_the_column(capsys):
    print_table(("NAME", "PID"), [("a", 5000), ("b", "-")])
    assert capsys.readouterr().out == "NAME   PID\na     5000\nb        -\n"


def test_the_table_of_a_terminal_is_the_one_of_a_pipe(capsys):
    rows = [("a", 5), ("longer", 1000)]
    shown = live_table(("NAME", "COUNT"), rows, caption="Ctrl-C ends", marked={1})
    assert shown.plain.splitlines() == [*table_lines(("NAME", "COUNT"), rows), "Ctrl-C ends"]


def test_every_table_of_the_command_line_is_made_by_the_one_renderer():
    """And its headings are in capitals; `table_lines` sees to those that come from data."""
    sources = [path.read_text() for path in Path(cli.__file__).parent.rglob("*.py")]
    assert not any("rich.table" in text for text in sources)
    literal = re.compile(
        r"(?:(?:print_table|live_table)\(\s*|headings=)\(([^()]*)\)|^_?HEADINGS[^=]*= \(([^()]*)\)", re.MULTILINE
    )
    headings = [found[1] or found[2] for text in sources for found in literal.finditer(text)]
    assert len(headings) > 15
    assert [each for each in headings if each != each.upper() or '""' in each] == []


def test_a_stopped_broker_has_no_process_id():
    assert BrokerRow(2, "127.0.0.1:9093", 0, "stopped", 0, 0, 3).cells == (2, "127.0.0.1:9093", "-", "stopped", 0, 0, 3)


def test_an_empty_table_is_its_headings(capsys):
    print_table(("NAME", "COUNT"), [])
    assert capsys.readouterr().out == "NAME  COUNT\n"


def test_topic_ids_look_as_in_kafka():
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(bytes([255] * 16)) == "_____________________w"


def test_without_a_terminal_progress_is_a_line_per_quarter(capsys):
    with progress("counting", 8) as watcher:
        for _ in range(8):
            watcher.advance(1)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" after")[0] for line in said] == [
        "counting: 2 of 8",
        "counting: 4 of 8",
        "counting: 6 of 8",
        "counting: 8 of 8",
    ]


def test_progress_of_unknown_length_keeps_silent_in_logs(capsys):
    with progress("counting", None) as watcher:
        watcher.advance(5)
    assert capsys.readouterr().err == ""
