"""Keys and values with a schema of a registry, shown as text and written from it. Calls block: use a thread."""

import json
from typing import Final, NamedTuple

from tidelog.client.schemas.decoding import AnyDeserializer, Decoded, DecodingError
from tidelog.client.schemas.encoding import AnySerializer, EncodingError
from tidelog.client.schemas.registry import Schema, SchemaRegistry
from tidelog.console.errors import PageError
from tidelog.console.formats import NULL, Format, Shown, cut, pretty, show

TIMEOUT_S: Final = 3.0
_ID: Final = "id:"


class WrittenWith(NamedTuple):
    """A schema to write with. `said` names it for people."""

    schema_id: int
    schema: Schema
    said: str


class RegistryDecoder:
    """Reads what registry serializers wrote, and writes what they would. Without a URL it does neither."""

    def __init__(self, url: str | None) -> None:
        self.registry = None if url is None else SchemaRegistry(url, timeout=TIMEOUT_S)
        self._deserializer = (
            None if self.registry is None else AnyDeserializer(self.registry, lambda data: show(data, Format.AUTO).text)
        )

    @property
    def is_there(self) -> bool:
        """Whether a registry was named."""
        return self.registry is not None

    @property
    def named_registry(self) -> SchemaRegistry:
        """The registry. Raises PageError if none was named."""
        if self.registry is None:
            raise PageError(
                404,
                "There is no schema registry",
                "The console was started without one.",
                "Name it with --schema-registry, or with schema.registry.url in the profile.",
            )
        return self.registry

    def show(self, topic: str, data: bytes | None, wanted: Format) -> Shown:
        """A key or value in any format. What the registry cannot read is shown as `formats.show` does."""
        if data is None:
            return NULL
        data = bytes(data)
        is_tried = wanted is Format.REGISTRY or (wanted is Format.AUTO and data[:1] == b"\0")
        if self._deserializer is None or not is_tried:
            return show(data, Format.AUTO if wanted is Format.REGISTRY else wanted)
        try:
            found = self._deserializer.decode(topic, data)
        except DecodingError as error:
            return show(data, Format.AUTO)._replace(note=f"not read with the registry: {error}")
        return Shown(cut(pretty(found.value)), f"{found.schema_type.lower()}, schema {found.schema_id}", len(data))

    def read(self, topic: str, data: bytes) -> Decoded | None:
        """What was written with a schema of the registry; None for all else."""
        if self._deserializer is None or data[:1] != b"\0":
            return None
        try:
            return self._deserializer.decode(topic, data)
        except DecodingError:
            return None

    def find(self, named: str) -> WrittenWith:
        """The schema of `SUBJECT`, the newest; of `SUBJECT:VERSION`; or of `id:NUMBER`. Raises RegistryError."""
        registry = self.named_registry
        number = named.removeprefix(_ID)
        if named.startswith(_ID) and _is_number(number):
            schema = registry.schema(int(number))
            return WrittenWith(int(number), schema, f"schema {number} ({schema.type})")
        subject, _, version = named.rpartition(":")
        if not subject or not _is_number(version):
            found = registry.latest(named)
        else:
            found = registry.version(subject, int(version))
        said = f"{found.subject}, version {found.version} ({found.schema.type})"
        return WrittenWith(found.schema_id, found.schema, said)

    def write(self, named: str, message: str, text: str) -> bytes:
        """The bytes of a JSON text. Raises PageError for a text that is none or that the schema forbids."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PageError(400, "This is not JSON", f"With a schema a value is written as JSON: {error}.") from None
        schema = self.find(named)
        try:
            made = AnySerializer(self.named_registry).encode(schema.schema_id, schema.schema, value, message or None)
        except EncodingError as error:
            raise PageError(400, "The schema forbids this value", f"{schema.said}: {error}.") from None
        return made

    def example(self, schema: WrittenWith, message: str = "") -> str:
        """A value to begin with, as JSON; empty if none can be made."""
        serializer = AnySerializer(self.named_registry)
        try:
            return pretty(serializer.example(schema.schema_id, schema.schema, message or None))
        except EncodingError:
            return ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
