"""Commands and programs that read one record, to copy from its page. Pure."""

import base64
import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tidelog.console.formats import printable
from tidelog.console.scan import Record

_CONFIG: Final = "client.properties"


class Place(NamedTuple):
    """How the record is reached."""

    servers: str
    is_secured: bool
    """Whether clients need settings, which are not shown: they hold secrets."""
    url: str
    """Of the record as JSON."""
    cookie: str
    """The name of the cookie that `url` needs; empty if nothing does."""


def snippets_of(record: Record, place: Place) -> dict[str, str]:
    """Texts by the name of what runs them."""
    return {"Command line": _command(record, place), "Python": _program(record, place), "curl": _curl(place)}


def _command(record: Record, place: Place) -> str:
    words = ["tidelog", "consume", record.topic, "--bootstrap-server", place.servers]
    words += ["--partition", str(record.partition), "--offset", str(record.offset), "--max-messages", "1"]
    words += ["--command-config", _CONFIG] * place.is_secured
    return shlex.join([*words, "--format", "json"])


def _program(record: Record, place: Place) -> str:
    imports = ["from tidelog.client import Consumer, TopicPartition"]
    config = ""
    if place.is_secured:
        imports = ["from pathlib import Path", "", *imports, "from tidelog.config.properties import parse_properties"]
        config = f'parse_properties(Path("{_CONFIG}").read_text()), '
    lines = [
        *imports,
        "",
        f"where = TopicPartition({record.topic!r}, {record.partition})",
        f"with Consumer({config}bootstrap_servers={place.servers!r}) as consumer:",
        "    consumer.assign([where])",
        f"    consumer.seek(where, {record.offset})",
        "    print(next(iter(consumer)))",
    ]
    return "\n".join(lines)


def _curl(place: Place) -> str:
    words = ["curl", place.url]
    # The session of the browser: its cookie is not shown, because it is as good as the login.
    return shlex.join([*words, *(["--cookie", f"{place.cookie}=SESSION"] if place.cookie else [])])


def as_json(record: Record) -> Mapping[str, Any]:
    """A record as an object. What is not text is in Base64, as `{"base64": "…"}`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": _plain(record.key),
        "value": _plain(record.value),
        "headers": [[name, _plain(value)] for name, value in record.headers],
    }


def _plain(data: bytes | None) -> object:
    if data is None:
        return None
    text = printable(bytes(data))
    return {"base64": base64.b64encode(data).decode()} if text is None else text
