"""The pipeline that keeps a table equal to a topic, as the text of a Python file. Pure.

The file is an ordinary one: `tidelog pipeline` takes it, and people may change it.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tidelog.cli.errors import CommandError
from tidelog.metadata.topic_names import check_topic_name

FORMATS: Final = ("iceberg", "delta")
ORIGIN: Final = ("_partition", "_offset", "_timestamp")
"""Where a row comes from: columns of every table."""
_COLUMN: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`]+))\s+(\S.*?)\s*")
_LONG: Final = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class TopicTable:
    """What `tidelog table create` is asked for."""

    name: str
    topic: str
    table_format: str
    warehouse: str
    columns: tuple[tuple[str, str], ...]
    """Names and types, as Spark writes them."""
    key: tuple[str, ...] = ()
    dead_letters: str = ""
    trigger: str = "10s"
    maintain_every: str = "1h"
    bootstrap_servers: str = ""
    command_config: str | None = None

    @property
    def schema(self) -> str:
        """The columns of a value."""
        return ", ".join(f"{_quoted(name)} {kind}" for name, kind in self.columns)

    def check(self) -> None:
        """Raise CommandError for what cannot be a table."""
        names = [name for name, _ in self.columns]
        check_topic_name(self.topic)
        if self.table_format not in FORMATS:
            raise CommandError(f"--format {self.table_format} is none of {', '.join(FORMATS)}")
        for name in self.key:
            if name not in names:
                raise CommandError(f"--key {name} is not a column of the values, which have {', '.join(names)}")
        for name in names:
            if name in (*ORIGIN, "_operation") or names.count(name) > 1:
                raise CommandError(f"column {name}: the table has one of that name already; leave it out with --schema")


def pipeline_file(table: TopicTable) -> str:
    """The text of the file."""
    names = [name for name, _ in table.columns]
    merged = bool(table.key)
    imports = ["DeadLetters", "Pipeline", table.table_format, "maintain", *(["merge_changes"] if merged else [])]
    columns = json.dumps([*names, *ORIGIN], ensure_ascii=False)
    lines = [
        f'"""Topic {table.topic} as the {table.table_format} table {table.name}. Made by `tidelog table create`."""',
        "",
        f"from tidelog.spark.pipeline import {', '.join([*imports, 'parse_json', 'topic'])}",
        "from pyspark.sql import DataFrame, functions as F",
        "",
        f"SCHEMA = {table.schema!r}",
        f"COLUMNS = {columns}",
        "",
        "",
        "def with_origin(records: DataFrame) -> DataFrame:",
        '    """Where a row comes from, whatever columns its value has."""',
        '    origin = {"_partition": "partition", "_offset": "offset", "_timestamp": "timestamp"}',
        "    return records.withColumns({name: F.col(column) for name, column in origin.items()})",
        "",
        "",
        *(_deletions(table) if merged else []),
        "TABLE = " + _table(table),
        "pipeline = Pipeline(",
        f"    {pipeline_name(table.name)!r},",
        f"    source=topic({table.topic!r}, maxOffsetsPerTrigger=100_000),",
        f"    steps=[with_origin, {'with_operation, ' if merged else ''}parse_json(SCHEMA)],",
        "    sink=" + _sink(table) + ",",
        f"    on_failure=DeadLetters({table.dead_letters!r}),",
        f"    trigger={table.trigger!r},",
        f"    bootstrap_servers={table.bootstrap_servers!r},",
        *([f"    command_config={table.command_config!r},"] if table.command_config else []),
        f"    description={f'topic {table.topic} as the table {table.name}'!r},",
        ")",
        "",
    ]
    return "\n".join(lines)


def pipeline_name(table: str) -> str:
    """The name of a table's pipeline, of which others are told."""
    return f"table-{table}"


def location(table: TopicTable) -> str:
    """What readers open: the path of a Delta table, the name of an Iceberg table in its catalog."""
    if table.table_format == "delta":
        return f"{table.warehouse.rstrip('/')}/{table.name}"
    return table.name if "." in table.name else f"default.{table.name}"


def _table(table: TopicTable) -> str:
    kept = f"columns=COLUMNS, merge_schema=True, maintain=maintain(every={table.maintain_every!r})"
    if table.table_format == "delta":
        return f"delta({location(table)!r}, {kept})"
    return f"iceberg({location(table)!r}, warehouse={table.warehouse!r}, {kept})"


def _sink(table: TopicTable) -> str:
    if not table.key:
        return "TABLE"
    return f"merge_changes(TABLE, key={list(table.key)!r}, order_by='_offset', operation='_operation')"


def _deletions(table: TopicTable) -> list[str]:
    """A record without a value deletes the row of its key, which is a JSON object or the one column of the key."""
    kinds = dict(table.columns)
    key = "CAST(key AS STRING)"
    if len(table.key) == 1:
        (name,) = table.key
        text = name.replace("'", "\\'")
        alone = f"to_json(named_struct('{text}', try_cast({key} AS {kinds[name]})))"
        key = f"CASE WHEN ltrim({key}) LIKE '{{%' THEN {key} ELSE {alone} END"
    return [
        "def with_operation(records: DataFrame) -> DataFrame:",
        '    """A record without a value deletes the row of its key."""',
        "    return records.withColumns(",
        "        {",
        "            \"_operation\": F.expr(\"if(value IS NULL, 'delete', 'upsert')\"),",
        f'            "value": F.expr({f"coalesce(value, CAST({key} AS BINARY))"!r}),',
        "        }",
        "    )",
        "",
        "",
    ]


def parse_columns(schema: str) -> tuple[tuple[str, str], ...]:
    """The names and types in `id long, amount double, tags array<string>`. Raises CommandError."""
    found = []
    for part in _split(schema):
        column = _COLUMN.fullmatch(part)
        if column is None:
            raise CommandError(f"--schema {part.strip()!r}: a column is a name and a type, such as `id long`")
        quoted, plain, kind = column.groups()
        found.append((plain or quoted.replace("``", "`"), kind))
    return tuple(found)


def _split(schema: str) -> list[str]:
    parts, depth = [""], 0
    for each in schema:
        depth += (each in "<(") - (each in ">)")
        if each == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += each
    return parts


def inferred_columns(values: Sequence[bytes | None]) -> tuple[tuple[str, str], ...]:
    """The columns of JSON objects, by those that are there. Raises CommandError if there is none."""
    objects = [found for value in values if isinstance(found := _parsed(value), dict)]
    if not objects:
        raise CommandError(
            "the topic has no record that is a JSON object, by which the columns could be known: give --schema "
            "'id long, amount double'"
        )
    kind = _merged([_kind(each) for each in objects])
    assert isinstance(kind, dict)
    return tuple((name, _text(each)) for name, each in kind.items())


def _parsed(value: bytes | None) -> object:
    try:
        return None if value is None else json.loads(value)
    except ValueError:
        return None


def _kind(value: Any) -> Any:
    """A type: a name, a dict for a struct, a list of one for an array, None where it is not known."""
    if isinstance(value, dict):
        return {name: _kind(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_merged([_kind(each) for each in value])]
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long" if value in _LONG else "string"
    if isinstance(value, float):
        return "double"
    return None if value is None else "string"


def _merged(kinds: Iterable[Any]) -> Any:
    known = [each for each in kinds if each is not None]
    if not known:
        return None
    if all(isinstance(each, dict) for each in known):
        names = dict.fromkeys(name for each in known for name in each)
        return {name: _merged([each.get(name) for each in known]) for name in names}
    if all(isinstance(each, list) for each in known):
        return [_merged([each[0] for each in known])]
    if all(each in ("long", "double") for each in known if isinstance(each, str)) and "double" in known:
        return "double" if all(isinstance(each, str) for each in known) else "string"
    first = known[0]
    return first if all(each == first for each in known) else "string"


def _text(kind: Any) -> str:
    if isinstance(kind, dict):
        fields = ", ".join(f"{_quoted(name)}: {_text(each)}" for name, each in kind.items())
        return f"struct<{fields}>" if fields else "string"
    if isinstance(kind, list):
        return f"array<{_text(kind[0])}>"
    return kind or "string"


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"
