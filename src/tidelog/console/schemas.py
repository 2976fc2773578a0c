"""Keys and values that were written with a schema of a registry, as text. Calls block: they belong into a thread."""

from typing import Final

from tidelog.client.schemas.decoding import AnyDeserializer, DecodingError
from tidelog.client.schemas.registry import SchemaRegistry
from tidelog.console.formats import NULL, Format, Shown, cut, pretty, show

TIMEOUT_S: Final = 3.0


class RegistryDecoder:
    """Reads what registry serializers wrote. Without a URL it reads nothing."""

    def __init__(self, url: str | None) -> None:
        self.registry = None if url is None else SchemaRegistry(url, timeout=TIMEOUT_S)
        self._deserializer = (
            None if self.registry is None else AnyDeserializer(self.registry, lambda data: show(data, Format.AUTO).text)
        )

    @property
    def is_there(self) -> bool:
        """Whether a registry was named."""
        return self.registry is not None

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
