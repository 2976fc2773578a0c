"""The rows of a dump, and their text as Kafka prints it. See `dump`."""

from typing import NamedTuple


class DumpOptions(NamedTuple):
    """What to show; the arguments of `dump_file`."""

    print_data: bool = False
    deep: bool = False
    sanity_only: bool = False
    verify_only: bool = False
    bytes_max: int | None = None


class DumpRow(NamedTuple):
    """One line: its kind, and its fields under Kafka's names in Kafka's order."""

    kind: str
    fields: dict[str, object]

    @property
    def is_problem(self) -> bool:
        return self.kind == "problem"


def note(text: str) -> DumpRow:
    return DumpRow("note", {"message": text})


def problem(text: str) -> DumpRow:
    return DumpRow("problem", {"message": text})


def row_text(row: DumpRow) -> str:
    """The row as Kafka's DumpLogSegments prints it."""
    if row.kind in ("note", "problem"):
        return str(row.fields["message"])
    line = " ".join(f"{name}: {_value_text(name, value)}" for name, value in row.fields.items())
    return f"| {line}" if row.kind == "record" else line


def _value_text(name: str, value: object) -> str:
    if name in ("deleteHorizonMs", "currentTxnFirstOffset"):
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    return str(value)
