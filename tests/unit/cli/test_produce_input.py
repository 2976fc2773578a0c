"""How lines of stdin become records."""

import os

import pytest

from tidelog.cli._record_input import BadLines, LineSplitter
from tidelog.cli.produce import Acks, Compression, read_lines
from tidelog.records.compression import Codec


def split(separator: str | None, null: str | None, *lines: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [each[:2] for each in LineSplitter(separator, null, BadLines.STOP).records([*lines])]


def test_a_line_is_a_value_unless_a_separator_is_given():
    assert split(None, None, b"a:b") == [(None, b"a:b")]
    assert split(":", None, b"a:b:c") == [(b"a", b"b:c")]
    assert split("=>", None, b"a=>b") == [(b"a", b"b")]


def test_a_line_without_the_separator_ends_the_records_and_is_named_with_its_number():
    splitter = LineSplitter(":", None, BadLines.STOP)
    assert [each[:2] for each in splitter.records([b"a:1", b"b:2"])] == [(b"a", b"1"), (b"b", b"2")]
    assert [each[:2] for each in splitter.records([b"c:3", b"plain", b"d:4"])] == [(b"c", b"3")]
    assert splitter.problem == "line 4: no key separator ':' in 'plain'"


def test_lines_without_the_separator_are_counted_where_they_are_skipped():
    splitter = LineSplitter(":", None, BadLines.SKIP)
    assert [each[:2] for each in splitter.records([b"a:1", b"plain", b"", b"d:4"])] == [(b"a", b"1"), (b"d", b"4")]
    assert (splitter.problem, splitter.skipped) == ("", 2)


def test_the_marker_makes_keys_and_values_null():
    assert split(":", "NULL", b"NULL:NULL") == [(None, None)]
    assert split(None, "NULL", b"NULL", b"NULL ") == [(None, None), (None, b"NULL ")]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\n", [b"", b""]),
        (b"x" * 600_000 + b"\ny", [b"x" * 600_000, b"y"]),
    ],
)
def test_lines_are_split_wherever_the_chunks_end(data, lines, tmp_path):
    file = tmp_path / "input"
    file.write_bytes(data)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        assert [line for chunk in read_lines(descriptor) if chunk is not None for line in chunk] == lines
    finally:
        os.close(descriptor)


def test_a_pause_of_the_input_is_reported_so_that_batches_go_out():
    source, sink = os.pipe()
    lines = read_lines(source)
    try:
        os.write(sink, b"a\nb")
        assert next(lines) == [b"a"]
        assert next(lines) is None
        os.write(sink, b"c\n")
        assert next(lines) == [b"bc"]
        os.close(sink)
        assert list(lines) == []
    finally:
        os.close(source)


def test_words_have_their_numbers():
    assert [acks.number for acks in Acks] == [0, 1, -1]
    assert [compression.codec for compression in Compression] == list(Codec)
