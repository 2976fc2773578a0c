"""What `tidelog produce` reads: lines, JSON lines and CSV become records. Pure.

A reader is given lines as they arrive, without their line feeds. What is no record is left out and counted, or ends
the input: the reader then says what is wrong with which line, and returns only what came before it.
"""

import base64
import binascii
import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from tidelog.cli.errors import CommandError
from tidelog.client.durations import parse_moment_ms

Header = tuple[str, bytes | None]


class Input(StrEnum):
    """What stdin holds."""

    LINES = "lines"
    JSON = "json"
    CSV = "csv"


class BadLines(StrEnum):
    """What follows from a line that is no record."""

    STOP = "stop"
    SKIP = "skip"


class NewRecord(NamedTuple):
    """A record to send; what is None is left to the producer."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    partition: int | None = None


class BadRecordError(ValueError):
    """A line that is no record; says why."""


class RecordReader(Protocol):
    """Reads the records of one input."""

    problem: str
    skipped: int
    partitions: int | None

    def records(self, lines: Sequence[bytes]) -> Iterator[NewRecord]:
        """The records of the next lines, up to the first that is none."""

    def end(self) -> Iterator[NewRecord]:
        """What is left when the input has ended."""


class _Reader:
    """What all inputs have in common: the number of the line, and what follows from a bad one."""

    def __init__(self, bad_lines: BadLines) -> None:
        self._bad_lines = bad_lines
        self._number = 0
        self.problem = ""
        """What is wrong with the line that nothing was read after."""
        self.skipped = 0
        self.partitions: int | None = None
        """How many the topic has, where records may choose one."""

    def end(self) -> Iterator[NewRecord]:
        """Every line was a record of its own."""
        yield from ()

    def _placed(self, record: NewRecord) -> NewRecord:
        """The record, if the topic has its partition."""
        if self.partitions is not None and record.partition is not None and record.partition >= self.partitions:
            raise BadRecordError(
                f"partition {record.partition} is none of the topic, which has 0 to {self.partitions - 1}; without "
                "it, the key chooses"
            )
        return record

    def _refuse(self, error: BadRecordError, number: int) -> bool:
        """Count a bad line, or remember it as the problem; returns whether reading goes on."""
        if self._bad_lines is BadLines.SKIP:
            self.skipped += 1
            return True
        self.problem = f"line {number}: {error}"
        return False


class LineSplitter(_Reader):
    """The key and the value of each line."""

    def __init__(self, key_separator: str | None, null_marker: str | None, bad_lines: BadLines) -> None:
        super().__init__(bad_lines)
        if key_separator == "":
            raise CommandError("--key-separator must not be empty")
        self._separator = None if key_separator is None else key_separator.encode()
        self._null = None if null_marker is None else null_marker.encode()

    def records(self, lines: Sequence[bytes]) -> Iterator[NewRecord]:
        """Key and value of the next lines. One without the separator cannot be split, as in Kafka's tool."""
        for line in lines:
            self._number += 1
            if self._separator is None:
                yield NewRecord(None, self._nullable(line))
                continue
            key, found, value = line.partition(self._separator)
            if found:
                yield NewRecord(self._nullable(key), self._nullable(value))
                continue
            problem = BadRecordError(f"no key separator {self._separator.decode()!r} in {_shown(line)}")
            if not self._refuse(problem, self._number):
                return

    def _nullable(self, text: bytes) -> bytes | None:
        return None if text == self._null else text


_NOTED_ONLY: Final = frozenset({"topic", "offset", "timestamp_type"})
"""Fields of `consume --format json` that a producer does not choose."""


class JsonLines(_Reader):
    """An object a line, with the fields that `consume --format json` prints. Empty lines are left out."""

    def records(self, lines: Sequence[bytes]) -> Iterator[NewRecord]:
        """The records of the next lines."""
        for line in lines:
            self._number += 1
            if not line.strip():
                continue
            try:
                yield self._placed(_from_object(line))
            except BadRecordError as error:
                if not self._refuse(error, self._number):
                    return


def _from_object(line: bytes) -> NewRecord:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRecordError(f"not JSON: {_shown(line)}: {error}") from error
    if not isinstance(given, dict):
        raise BadRecordError(f"not an object with key and value: {_shown(line)}")
    given = {name: value for name, value in given.items() if name not in _NOTED_ONLY}
    record = NewRecord(
        _part(given, "key"),
        _part(given, "value"),
        tuple(_headers(given.pop("headers", None))),
        _timestamp(given.pop("timestamp", None)),
        _partition(given.pop("partition", None)),
    )
    if given:
        raise BadRecordError(f"{next(iter(given))!r} is not a field of a record{_advice(next(iter(given)))}")
    return record


def _advice(name: str) -> str:
    if name.endswith("_schema_id"):
        return ": it was decoded; read without --schema-registry to copy records as they are stored"
    return ": key, value, headers, timestamp, partition, key_base64, value_base64"


def _part(given: dict[str, Any], name: str) -> bytes | None:
    """Take a key or value out of an object, as text, as base64, or as JSON for anything else."""
    encoded = given.pop(f"{name}_base64", None)
    if encoded is not None:
        if name in given:
            raise BadRecordError(f"both {name} and {name}_base64 are given")
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise BadRecordError(f"{name}_base64 {str(encoded)[:40]!r} is not base64: {error}") from error
    value = given.pop(name, None)
    return None if value is None else _text_or_json(value)


def _text_or_json(value: Any) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _utf8(text)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadRecordError(f"half of a surrogate pair in {text[:40]!r}") from error


def _headers(given: Any) -> Iterator[Header]:
    """Headers as an object of texts, or as the list that `consume --format json` prints."""
    if given is None:
        return
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise BadRecordError(f"headers {str(given)[:40]!r} are neither an object nor a list")
    for each in given:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise BadRecordError(f"a header is {{'name': …, 'value': …}}, not {str(each)[:40]!r}")
        rest = {name: value for name, value in each.items() if name != "name"}
        yield each["name"], _part(rest, "value")
        if rest:
            raise BadRecordError(f"{next(iter(rest))!r} is not a field of a header")


def _timestamp(given: Any) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    if isinstance(given, str) and given.isascii() and given.isdigit():
        return int(given)
    try:
        return parse_moment_ms(given)
    except (ValueError, AttributeError, OverflowError):
        raise BadRecordError(f"timestamp {given!r} is neither milliseconds nor a time of ISO 8601") from None


def _partition(given: Any) -> int | None:
    if isinstance(given, str) and given.isascii() and given.isdigit():
        return int(given)
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given >= 0):
        return given
    raise BadRecordError(f"partition {given!r} is not a number")


_HEADER_PREFIX: Final = "header."
_RESERVED: Final = frozenset({"key", "value", "timestamp", "partition"})


class CsvRows(_Reader):
    """Rows under a line of names. Columns without a place in a record are the value, as a JSON object."""

    def __init__(self, key_column: str | None, null_marker: str | None, delimiter: str, bad_lines: BadLines) -> None:
        super().__init__(bad_lines)
        if len(delimiter) != 1:
            raise CommandError(f"--delimiter {delimiter!r} is not one character")
        self._key_column = key_column
        self._null = null_marker
        self._delimiter = delimiter
        self._names: list[str] | None = None
        self._row: list[bytes] = []
        self._has_open_quote = False
        self._row_at = 1

    def records(self, lines: Sequence[bytes]) -> Iterator[NewRecord]:
        """The records of the next lines. A row may have several: quotes keep line feeds."""
        for line in lines:
            self._number += 1
            if not self._row:
                self._row_at = self._number
            self._row.append(line)
            self._has_open_quote ^= line.count(b'"') % 2 == 1
            if self._has_open_quote:
                continue
            text, self._row = b"\n".join(self._row), []
            yield from self._take(text)
            if self.problem:
                return

    def end(self) -> Iterator[NewRecord]:
        """A row whose quotes were not closed."""
        if self._row and not self.problem:
            self._refuse(BadRecordError(f"a quote is not closed: {_shown(self._row[0])}"), self._row_at)
        yield from ()

    def _take(self, text: bytes) -> Iterator[NewRecord]:
        try:
            cells = next(csv.reader(text.decode("utf-8-sig").splitlines(keepends=True), delimiter=self._delimiter), [])
            if self._names is None:
                self._names = self._checked(cells)
            elif cells:
                yield self._placed(self._record(self._names, cells))
        except (UnicodeDecodeError, csv.Error) as error:
            self._refuse(BadRecordError(f"not CSV in UTF-8: {_shown(text)}: {error}"), self._row_at)
        except BadRecordError as error:
            self._refuse(error, self._row_at)

    def _checked(self, names: list[str]) -> list[str]:
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise CommandError(f"the CSV has two columns {twice!r}")
        if self._key_column is not None and self._key_column not in names:
            raise CommandError(f"--key-column {self._key_column!r} is none of the columns: {', '.join(names)}")
        return names

    def _record(self, names: Sequence[str], cells: Sequence[str]) -> NewRecord:
        if len(cells) != len(names):
            raise BadRecordError(f"{len(cells)} cells under {len(names)} names: {', '.join(cells)[:40]!r}")
        row = {name: None if cell == self._null else cell for name, cell in zip(names, cells, strict=True)}
        headers = tuple(
            (name.removeprefix(_HEADER_PREFIX), None if cell is None else _utf8(cell))
            for name, cell in row.items()
            if name.startswith(_HEADER_PREFIX)
        )
        key = row.get(self._key_column or "key")
        return NewRecord(
            None if key is None else _utf8(key),
            self._value(row),
            headers,
            _timestamp(row.get("timestamp") or None),
            _partition(row.get("partition") or None),
        )

    def _value(self, row: Mapping[str, str | None]) -> bytes | None:
        if "value" in row:
            value = row["value"]
            return None if value is None else _utf8(value)
        rest = {
            name: cell for name, cell in row.items() if name not in _RESERVED and not name.startswith(_HEADER_PREFIX)
        }
        return _text_or_json(rest)


def _shown(line: bytes) -> str:
    return repr(line[:40].decode(errors="replace"))


def make_reader(
    kind: Input,
    *,
    bad_lines: BadLines,
    key_separator: str | None,
    null_marker: str | None,
    key_column: str | None,
    delimiter: str,
) -> RecordReader:
    """The reader of an input. Raises CommandError for options that another input has."""
    if kind is not Input.LINES and key_separator is not None:
        raise CommandError(f"--key-separator is for --input lines, not {kind}")
    if kind is not Input.CSV and (key_column is not None or delimiter != ","):
        raise CommandError(f"--key-column and --delimiter are for --input csv, not {kind}")
    if kind is Input.JSON and null_marker is not None:
        raise CommandError("--null-marker is for --input lines and csv: JSON has null")
    readers: Mapping[Input, Callable[[], RecordReader]] = {
        Input.LINES: lambda: LineSplitter(key_separator, null_marker, bad_lines),
        Input.JSON: lambda: JsonLines(bad_lines),
        Input.CSV: lambda: CsvRows(key_column, null_marker, delimiter, bad_lines),
    }
    return readers[kind]()
