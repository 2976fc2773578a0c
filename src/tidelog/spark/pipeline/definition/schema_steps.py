"""Steps for values with schemas: Avro, JSON Schema and Protobuf. Plain data; `applying.schema_steps` makes them.

With `registry`, a value has Confluent's wire format: the id of the schema it was written with, then the data. It is
read with the writer's schema and turned into the columns of the reader's, which is `schema` or the newest of `subject`.
Without `registry`, a value is the data alone, and `schema` describes it.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

AVRO: Final = "avro"
JSON_SCHEMA: Final = "json_schema"
PROTOBUF: Final = "protobuf"

SchemaText = str | os.PathLike[str] | Mapping[str, Any]
"""A file, the text of a schema, or a schema as a dict."""

STRATEGIES: Final = ("topic_name", "record_name", "topic_record_name")
"""Names of the subject strategies of `tidelog.client.schemas`."""

Strategy = str | Callable[[str, bool, str | None], str]


@dataclass(frozen=True)
class ParseSchema:
    """A column with a schema, as columns; values that do not match fail."""

    format: str
    schema: SchemaText | None = None
    registry: str | None = None
    subject: str | None = None
    message: str | None = None
    column: str = "value"
    into: str | None = None
    registry_options: Mapping[str, Any] = field(default_factory=dict)
    allow_null: bool = False
    """Whether a column without a value stays so, and is not a failure."""

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"parse_{self.format}({self.column})"


@dataclass(frozen=True)
class PackSchema:
    """Columns as a value with a schema; rows that do not match fail."""

    format: str
    columns: tuple[str, ...] | None = None
    key: str | None = None
    schema: SchemaText | None = None
    key_schema: SchemaText | None = None
    registry: str | None = None
    topic: str | None = None
    message: str | None = None
    subject: Strategy = "topic_name"
    register: bool = True
    registry_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name in messages."""
        return f"pack_{self.format}"
