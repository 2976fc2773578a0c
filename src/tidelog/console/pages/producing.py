"""Producing a record by a form, from scratch or as a copy of another one that may be changed first.

With a schema registry, a key or value can be typed as JSON and is written with a schema. The form begins with an
example of the newest schema of the topic.
"""

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidelog.client.schemas.decoding import plain_json
from tidelog.client.schemas.registry import RegistryError, RegistryUnavailable
from tidelog.console.errors import PageError
from tidelog.console.formats import pretty, printable
from tidelog.console.forms import Act, Done, Field, Form, Values, filled
from tidelog.console.pages.messages import record_at
from tidelog.console.pages.routing import Area
from tidelog.console.pages.topics import topic_url
from tidelog.console.scan import Record
from tidelog.console.web import Ask, parse_number

TEXT: Final = "text"
BASE64: Final = "base64"
SCHEMA: Final = "schema"
ENCODINGS: Final = ((TEXT, "Text, as UTF-8"), (BASE64, "Base64, for what is not text"))
WITH_SCHEMA: Final = (*ENCODINGS, (SCHEMA, "JSON, to be written with a schema"))
SIDES: Final = ("key", "value")
_MARK: Final = ";base64"
"""Behind the name of a header whose value is Base64."""


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise PageError(400, "This is not Base64", f"{text[:50]!r} cannot be read: {error}.") from None


_READ: Final[Mapping[str, Callable[[str], bytes]]] = {TEXT: str.encode, BASE64: _from_base64}
_WRITE: Final[Mapping[str, Callable[[bytes], str]]] = {
    TEXT: lambda data: bytes(data).decode(),
    BASE64: lambda data: base64.b64encode(data).decode(),
}


def values_of(record: Record) -> dict[str, str]:
    """The fields of the form for a record like this one. A header without a value cannot be typed; it is left out."""
    key, key_encoding = _written(record.key or b"")
    value, value_encoding = _written(record.value or b"", in_lines=True)
    headers = [(name, *_written(content)) for name, content in record.headers if content is not None]
    return {
        "key": key,
        "key_encoding": key_encoding,
        "value": value,
        "value_encoding": value_encoding,
        "tombstone": "1" if record.value is None else "",
        "headers": "\n".join(f"{name}{_MARK * (how == BASE64)}={text}" for name, text, how in headers),
        "partition": str(record.partition),
    }


def _written(data: bytes, *, in_lines: bool = False) -> tuple[str, str]:
    """Bytes as they can be typed, and how they are written."""
    encoding = TEXT if _can_be_typed(data, in_lines=in_lines) else BASE64
    return _WRITE[encoding](data), encoding


def _can_be_typed(data: bytes, *, in_lines: bool = False) -> bool:
    """Whether a form returns these bytes as they are: browsers and the form change line ends and spaces around them."""
    text = printable(bytes(data))
    if text is None or "\r" in text:
        return False
    return not text.startswith("\n") if in_lines else "\n" not in text and text == text.strip()


async def _form(ask: Ask) -> Form:
    topic = await ask.view.topic(ask.part("topic"))
    given: dict[str, str] = {}
    sentences: list[str] = []
    back = topic_url(topic.name, "messages")
    if ask.query("offset"):
        partition = parse_number("partition", ask.query("partition"), 0, len(topic.partitions) - 1)
        record = await record_at(ask, topic, partition, parse_number("offset", ask.query("offset")))
        given = values_of(record) | await asyncio.to_thread(_decoded, ask, topic.name, record)
        back = topic_url(topic.name, "messages", str(partition), str(record.offset))
        sentences.append(
            f"A copy of the record at offset {record.offset:,} of partition {partition}; change what you like."
        )
        lost = [name for name, value in record.headers if value is None]
        if lost:
            sentences.append(f"Headers without a value are left out: {', '.join(lost)}.")
    elif ask.cluster.decoder.is_there and ask.request.method == "GET":
        given, said = await asyncio.to_thread(_examples, ask, topic.name)
        sentences += said
    fields = [
        *_side(ask, topic.name, "key", Field("key", "Key", required=False, hint="Empty: no key.")),
        *_side(ask, topic.name, "value", Field("value", "Value", kind="textarea", required=False)),
        Field("tombstone", "No value: a tombstone", kind="checkbox", required=False),
        Field(
            "headers",
            "Headers",
            kind="textarea",
            required=False,
            hint="One name=value per line; name;base64=value for a value that is not text.",
        ),
        Field("partition", "Partition", kind="number", required=False, hint="Empty: chosen by the key, or at random."),
    ]
    return Form(f"Produce a record to {topic.name}", filled(fields, given), "Produce", back, sentences)


def _side(ask: Ask, topic: str, side: str, field: Field) -> list[Field]:
    """The fields of a key or a value: what it is, how it was typed, and with a registry which schema it gets."""
    has_registry = ask.cluster.decoder.is_there
    options = WITH_SCHEMA if has_registry else ENCODINGS
    fields = [field, Field(f"{side}_encoding", f"The {side} is", kind="select", options=options, required=False)]
    if has_registry:
        fields.append(
            Field(
                f"{side}_schema",
                f"Schema of the {side}",
                required=False,
                hint=f"A subject, subject:version, or id:number; empty: the newest of {topic}-{side}. Behind a space, "
                "the message of a Protobuf schema that is not the first of its file.",
            )
        )
    return fields


def _examples(ask: Ask, topic: str) -> tuple[dict[str, str], list[str]]:
    """What the form begins with for a topic whose subjects the registry has, and what it says of them."""
    given: dict[str, str] = {}
    said: list[str] = []
    decoder = ask.cluster.decoder
    for side in SIDES:
        wanted = ask.query(f"{side}_schema") or f"{topic}-{side}"
        try:
            schema = decoder.find(wanted)
        except RegistryError:
            continue
        except RegistryUnavailable as error:
            return {}, [f"The schema registry cannot be reached: {error}."]
        given |= {
            side: decoder.example(schema),
            f"{side}_encoding": SCHEMA,
            f"{side}_schema": ask.query(f"{side}_schema"),
        }
        said.append(f"The {side} begins with an example of {schema.said}.")
    return given, said


def _decoded(ask: Ask, topic: str, record: Record) -> dict[str, str]:
    """The sides of a record that were written with a schema, as JSON to be written with the same one."""
    given: dict[str, str] = {}
    for side, data in zip(SIDES, (record.key, record.value), strict=True):
        found = None if data is None else ask.cluster.decoder.read(topic, bytes(data))
        if found is not None and (found.message or found.schema_type != "PROTOBUF"):
            text = pretty(found.value) if side == "value" else json.dumps(found.value, default=plain_json)
            given |= {
                side: text,
                f"{side}_encoding": SCHEMA,
                f"{side}_schema": f"id:{found.schema_id} {found.message}".strip(),
            }
    return given


async def _produce(ask: Ask, values: Values) -> Done:
    topic = await ask.view.topic(ask.part("topic"))
    given = values.get("partition", "").strip()
    partition = parse_number("Partition", given, 0, len(topic.partitions) - 1) if given else None
    key = await _read(ask, topic.name, values, "key") or None
    value = None if values.get("tombstone") == "1" else await _read(ask, topic.name, values, "value")
    headers = _headers(values.get("headers", ""))
    async with ask.view.producer() as producer:
        sent = await producer.send_and_wait(topic.name, value, key, partition=partition, headers=headers)
    return Done(
        topic_url(topic.name, "messages"),
        f"The record was written to partition {sent.partition} at offset {sent.offset:,}.",
    )


async def _read(ask: Ask, topic: str, values: Values, side: str) -> bytes:
    # Browsers send line ends of text areas as CR LF.
    text = values.get(side, "").replace("\r\n", "\n")
    encoding = values.get(f"{side}_encoding", TEXT)
    if encoding == SCHEMA:
        if side == "key" and not text.strip():
            return b""
        named, _, message = values.get(f"{side}_schema", "").strip().partition(" ")
        return await asyncio.to_thread(ask.cluster.decoder.write, named or f"{topic}-{side}", message.strip(), text)
    return _READ.get(encoding, str.encode)(text)


def _headers(lines: str) -> Sequence[tuple[str, bytes]]:
    headers = []
    for line in lines.splitlines():
        if line.strip():
            name, equals, content = line.partition("=")
            if not equals:
                raise PageError(400, "A header cannot be read", f"{line!r} is not name=value.")
            name = name.strip()
            read = _READ[BASE64 if name.endswith(_MARK) else TEXT]
            headers.append((name.removesuffix(_MARK), read(content.strip())))
    return headers


AREA = Area(pages={}, acts=[Act("/topics/{topic}/produce", _form, _produce)])
