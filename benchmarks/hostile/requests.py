"""The hostile requests: every API and version, every array, text and tag, abused in each way that a declaration allows.

A request is made when it is sent, since some take a hundred megabytes. `generated` covers the declarations without
knowing what they mean; `named` are those that need to know, most of them found by others before.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import crc32c

from benchmarks import frames
from benchmarks.hostile import rendering
from benchmarks.hostile.rendering import Renderer, Target
from tidelog.broker.handlers import handlers
from tidelog.broker.requests.routes import request_name
from tidelog.wire import messages
from tidelog.wire.schema import Message

GROUP: Final = "reader"
"""A group that has committed an offset of each partition of a topic."""
SIZE_BYTES: Final = 900_000
"""Of each generated request: below a megabyte, the default of most clients' largest."""
TEXT_BYTES_MAX: Final = 32_767
_BEYOND_TEXT_BYTES: Final = 40_000
_COUNT_MAX: Final = 2**31 - 2
_GZIP: Final = 1


class HostileRequest(NamedTuple):
    """One request."""

    api: str
    version: int
    kind: str
    render: Callable[[Target], bytes]

    @property
    def name(self) -> str:
        return f"{self.api} v{self.version}: {self.kind}"


def served() -> Iterator[tuple[type[Message], list[int]]]:
    """Every request that Tidelog serves, with its versions."""
    for route in handlers().values():
        versions = list(range(route.min_version, route.max_version + 1))
        yield getattr(messages, request_name(route.api_key)), versions


def typical(request: type[Message], versions: list[int]) -> list[int]:
    """The versions that differ most: the oldest, the last one before compact lengths, the newest."""
    wanted = {versions[0], request.flexible_from - 1, versions[-1]}
    return [version for version in versions if version in wanted]


def newest(_request: type[Message], versions: list[int]) -> list[int]:
    return versions[-1:]


def every(_request: type[Message], versions: list[int]) -> list[int]:
    return versions


VERSIONS: Final = {"newest": newest, "typical": typical, "all": every}
"""Which versions of an API are sent."""


def generated(size_bytes: int = SIZE_BYTES, *, versions: str = "typical") -> Iterator[HostileRequest]:
    """Requests of every API, made from the declarations."""
    choose = VERSIONS[versions]
    for request, of_api in served():
        for version in choose(request, of_api):
            yield from _of_version(request, version, size_bytes)


def _of_version(request: type[Message], version: int, size_bytes: int) -> Iterator[HostileRequest]:
    api = request.__name__.removesuffix("Request")

    def case(kind: str, render: Callable[[Renderer], bytes]) -> HostileRequest:
        return HostileRequest(api, version, kind, lambda target: render(Renderer(request, version, target)))

    sketch = Renderer(request, version, Target("sketch", bytes(16)))
    for path, _, _, field in sketch.arrays():
        where = ".".join(path)
        for word, special in (
            ("the same", rendering.repeated(size_bytes)),
            ("distinct", rendering.distinct(size_bytes)),
            ("empty", rendering.smallest(size_bytes)),
            ("claimed", rendering.claimed(_COUNT_MAX)),
        ):
            yield case(f"{where}, {word}", _with(path, special))
        if sketch.is_flexible and isinstance(field.element, type):
            tagged = rendering.tagged_element(size_bytes // 4)
            yield case(f"{where}, tags", _with(path, tagged))
    for path, _, _, _ in sketch.texts():
        where = ".".join(path)
        longest = rendering.long_text(TEXT_BYTES_MAX)
        yield case(f"{where}, long", _with(path, longest))
        if sketch.is_flexible:
            beyond = rendering.long_text(_BEYOND_TEXT_BYTES)
            yield case(f"{where}, beyond", _with(path, beyond))
    yield case("client id, long", lambda r: r.frame(client_id="c" * TEXT_BYTES_MAX))
    if sketch.is_flexible:
        yield case("header, tags", lambda r: r.frame(header_tags=rendering.tags(size_bytes // 4)))
        yield case("header, one large tag", lambda r: r.frame(header_tags=rendering.tags(1, size_bytes)))
        yield case("header, claimed tags", lambda r: r.frame(header_tags=frames.uvarint(_COUNT_MAX)))
        yield case("body, tags", lambda r: r.frame(body_tags=rendering.tags(size_bytes // 4)))
        yield case("body, claimed tags", lambda r: r.frame(body_tags=frames.uvarint(_COUNT_MAX)))


def _with(path: rendering.Path, special: rendering.Special) -> Callable[[Renderer], bytes]:
    """A frame whose field at `path` is replaced."""
    return lambda renderer: renderer.frame({path: special})


def named() -> Iterator[HostileRequest]:
    """Requests that are large, or that need to know what they do."""
    yield _array("OffsetFetch", 8, "all 1,000 offsets of one group 10,000 times", ("groups",), _all_offsets(10_000))
    yield _array("DescribeConfigs", 4, "one topic 50,000 times", ("resources",), _all_settings(50_000))
    yield _array(
        "Produce", 9, "1,000,000 empty partitions", ("topic_data", "partition_data"), rendering.smallest(6_000_000)
    )
    yield _array(
        "Produce", 9, "10,000,000 empty partitions", ("topic_data", "partition_data"), rendering.smallest(60_000_000)
    )
    yield _array("JoinGroup", 9, "14,000,000 protocols", ("protocols",), rendering.smallest(42_000_000))
    yield _array("Metadata", 1, "1,000,000 unknown names", ("topics",), rendering.distinct(10_000_000))
    yield _array("Metadata", 12, "30,000,000 names", ("topics",), rendering.smallest(90_000_000))
    yield HostileRequest("Metadata", 12, "49,000,000 tags in the header", _header_of_tags)
    yield HostileRequest("Produce", 9, "a gzip bomb of 120 MB", _bomb)


def _array(api: str, version: int, kind: str, path: rendering.Path, special: rendering.Special) -> HostileRequest:
    request = getattr(messages, f"{api}Request")
    return HostileRequest(api, version, kind, lambda target: Renderer(request, version, target).frame({path: special}))


def _all_offsets(count: int) -> rendering.Special:
    """Groups of OffsetFetch that ask for every offset of one group, which `preparing` has committed."""

    def render(renderer: Renderer, _cls: object, _name: str, _field: object) -> bytes:
        return renderer.count(count) + (frames.text(GROUP) + b"\x00" + frames.NO_TAGS) * count

    return render


def _all_settings(count: int) -> rendering.Special:
    """Resources of DescribeConfigs that ask for every setting of the topic."""

    def render(renderer: Renderer, _cls: object, _name: str, _field: object) -> bytes:
        resource = struct.pack(">b", 2) + frames.text(renderer.target.topic) + b"\x00" + frames.NO_TAGS
        return renderer.count(count) + resource * count

    return render


def _header_of_tags(target: Target) -> bytes:
    count = 49_000_000
    tags = frames.uvarint(count) + b"\x01\x00" * count
    return Renderer(messages.MetadataRequest, 12, target).frame(header_tags=tags)


def _bomb(target: Target) -> bytes:
    """A batch of one record whose 120 MB of zeros are compressed to 120 kB."""
    record = frames.record(0, bytes(120_000_000))
    data = gzip.compress(record, 6)
    checked = struct.pack(">hiqqqhii", _GZIP, 0, 0, 0, -1, -1, -1, 1) + data
    batch = struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c.crc32c(checked)) + checked
    return frames.produce(target.topic, 0, batch)
