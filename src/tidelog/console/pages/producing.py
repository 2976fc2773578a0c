"""Producing a record by a form, from scratch or as a copy of another one that may be changed first."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidelog.console.errors import PageError
from tidelog.console.formats import printable
from tidelog.console.forms import Act, Done, Field, Form, Values, filled
from tidelog.console.pages.messages import record_at
from tidelog.console.pages.routing import Area
from tidelog.console.pages.topics import topic_url
from tidelog.console.scan import Record
from tidelog.console.web import Ask, parse_number

TEXT: Final = "text"
BASE64: Final = "base64"
ENCODINGS: Final = ((TEXT, "Text, as UTF-8"), (BASE64, "Base64, for what is not text"))
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
    topic = (await ask.view.snapshot.get()).topic(ask.part("topic"))
    given: Mapping[str, str] = {}
    sentences: list[str] = []
    back = topic_url(topic.name, "messages")
    if ask.query("offset"):
        partition = parse_number("partition", ask.query("partition"), 0, len(topic.partitions) - 1)
        record = await record_at(ask, topic, partition, parse_number("offset", ask.query("offset")))
        given = values_of(record)
        back = topic_url(topic.name, "messages", str(partition), str(record.offset))
        sentences.append(
            f"A copy of the record at offset {record.offset:,} of partition {partition}; change what you like."
        )
        lost = [name for name, value in record.headers if value is None]
        if lost:
            sentences.append(f"Headers without a value are left out: {', '.join(lost)}.")
    fields = [
        Field("key", "Key", required=False, hint="Empty: no key."),
        Field("key_encoding", "The key is", kind="select", options=ENCODINGS, required=False),
        Field("value", "Value", kind="textarea", required=False),
        Field("value_encoding", "The value is", kind="select", options=ENCODINGS, required=False),
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


async def _produce(ask: Ask, values: Values) -> Done:
    topic = (await ask.view.snapshot.get()).topic(ask.part("topic"))
    given = values.get("partition", "").strip()
    partition = parse_number("Partition", given, 0, len(topic.partitions) - 1) if given else None
    key = _read(values, "key") or None
    value = None if values.get("tombstone") == "1" else _read(values, "value")
    headers = _headers(values.get("headers", ""))
    async with ask.view.producer() as producer:
        sent = await producer.send_and_wait(topic.name, value, key, partition=partition, headers=headers)
    return Done(
        topic_url(topic.name, "messages"),
        f"The record was written to partition {sent.partition} at offset {sent.offset:,}.",
    )


def _read(values: Values, name: str) -> bytes:
    # Browsers send line ends of text areas as CR LF.
    text = values.get(name, "").replace("\r\n", "\n")
    return _READ.get(values.get(f"{name}_encoding", TEXT), str.encode)(text)


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
