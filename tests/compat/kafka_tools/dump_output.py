"""What `kafka.tools.DumpLogSegments` prints, as data."""

import re
from dataclasses import dataclass, field
from pathlib import Path

_HEADING = re.compile(r"^Dumping (?P<path>.+)$")
_RECORD = re.compile(
    r"^\| offset: (?P<offset>\d+) CreateTime: (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+)"
    r" valueSize: (?P<value_size>-?\d+)(?: sequence: (?P<sequence>-?\d+))? headerKeys: \[(?P<headers>.*?)\]"
    r"(?: key: (?P<key>\S*))?(?: payload: (?P<value>\S*))?$"
)
_FIELD = re.compile(r"(\w+): (\S+)")

COMPLAINTS = (
    "Mismatches in",
    "Found timestamp mismatch",
    "Found out of order timestamp",
    "Non-consecutive offsets",
    "isvalid: false",
    "Found invalid",
    "corrupt",
    "Exception",
)


@dataclass(slots=True)
class DumpedFile:
    """One file's part of the output: batches and other `name: value` lines as fields, records apart."""

    path: Path
    rows: list[dict[str, str]] = field(default_factory=list)
    records: list[dict[str, str | None]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def parse(output: str) -> list[DumpedFile]:
    """The files of a dump in the order they were named."""
    files: list[DumpedFile] = []
    for line in output.splitlines():
        heading = _HEADING.match(line)
        if heading:
            files.append(DumpedFile(Path(heading["path"])))
            continue
        if not files:
            continue
        files[-1].lines.append(line)
        record = _RECORD.match(line)
        if record:
            files[-1].records.append(record.groupdict())
        elif fields := dict(_FIELD.findall(line)):
            files[-1].rows.append(fields)
    return files


def complaints(output: str) -> list[str]:
    """The lines in which the tool says that something does not fit."""
    return [line for line in output.splitlines() if any(word in line for word in COMPLAINTS)]
