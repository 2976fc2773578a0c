"""Messages: browse a topic by offset, time and key, search it, look at one record, and produce one."""

import asyncio
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.durations import parse_moment_ms
from tidelog.client.types import TopicPartition
from tidelog.console.cluster_view import ClusterView
from tidelog.console.errors import PageError
from tidelog.console.formats import Format, Shown, show
from tidelog.console.forms import Act, Done, Field, Form, Values
from tidelog.console.pages.routing import Area
from tidelog.console.pages.topics import topic_url
from tidelog.console.reading import (
    SCANNED_MAX,
    Bounds,
    CursorError,
    FilterError,
    Found,
    Record,
    make_filter,
    parse_cursor,
    read_backward,
    read_forward,
    search,
    write_cursor,
)
from tidelog.console.web import Ask, link, parse_number

COUNTS: Final = (25, 50, 100, 200)
STARTS: Final = (
    ("newest", "Newest first"),
    ("oldest", "Oldest first"),
    ("offset", "From an offset"),
    ("time", "From a time"),
)
PARTS: Final = (("all", "Everything"), ("key", "Key"), ("value", "Value"), ("headers", "Headers"))


class MessageRow(NamedTuple):
    """A record on a page."""

    record: Record
    key: Shown
    value: Shown
    headers: list[tuple[str, Shown]]


class Query(NamedTuple):
    """What the form above the messages asks for."""

    start: str
    partition: int | None
    offset: str
    time: str
    key: str
    text: str
    where: str
    form: Format
    limit: int

    @property
    def is_search(self) -> bool:
        """Whether records are chosen by their contents."""
        return bool(self.key or self.text)


async def show_messages(ask: Ask) -> Response:
    """A page of records."""
    topic = (await ask.view.snapshot.get()).topic(ask.part("topic"))
    query = _query(ask)
    numbers = [each.partition for each in topic.partitions if each.leader_id >= 0]
    if query.partition is not None:
        if query.partition >= len(topic.partitions):
            last = len(topic.partitions) - 1
            raise PageError(
                404, "It does not exist", f"{topic.name} has partitions 0 to {last}, not {query.partition}."
            )
        numbers = [each for each in numbers if each == query.partition]
    problem = ""
    found = Found((), None, None, 0)
    try:
        found = await _find(ask, topic.name, numbers, query)
    except (CursorError, FilterError, ValueError) as error:
        problem = f"{error}."[0].upper() + f"{error}."[1:]
    rows = await asyncio.to_thread(_rows, ask, topic.name, found, query.form)
    return ask.render(
        "messages.html",
        400 if problem else 200,
        area="topics",
        tab="messages",
        topic=topic,
        rows=rows,
        found=found,
        query=query,
        problem=problem,
        partitions=len(topic.partitions),
        older=_continued(ask, "before", found.older),
        newer=_continued(ask, "from", found.newer),
        formats=_formats(ask),
        counts=COUNTS,
        starts=STARTS,
        parts=PARTS,
        scanned_max=SCANNED_MAX,
    )


def _query(ask: Ask) -> Query:
    start = ask.query("start", "newest")
    where = ask.query("where", "all")
    count = ask.number("count", COUNTS[0], 1, COUNTS[-1])
    form = ask.query("format", "auto")
    return Query(
        start if start in dict(STARTS) else "newest",
        ask.number("partition", 0) if ask.query("partition").strip() else None,
        ask.query("offset").strip(),
        ask.query("time").strip(),
        ask.query("key"),
        ask.query("q").strip(),
        where if where in dict(PARTS) else "all",
        Format(form) if form in Format.__members__.values() else Format.AUTO,
        count,
    )


async def _find(ask: Ask, topic: str, numbers: list[int], query: Query) -> Found:
    bounds = await bounds_of(ask.view, topic, numbers)
    matches = make_filter(query.text, query.where, query.key)
    if before := ask.query("before"):
        return await read_backward(ask.view, topic, parse_cursor(before), bounds, query.limit)
    if given := ask.query("from"):
        starts = parse_cursor(given)
    elif query.start == "time":
        starts = await _at_time(ask.view, topic, bounds, parse_moment_ms(query.time))
    elif query.start == "offset":
        starts = dict.fromkeys(bounds.first, parse_number("offset", query.offset or "0"))
    elif query.start == "newest" and query.is_search:
        # As far back as one search reads.
        share = max(1, SCANNED_MAX // max(1, len(bounds.end)))
        starts = {each: end - share for each, end in bounds.end.items()}
    else:
        starts = dict(bounds.first)
    if query.is_search:
        return await search(ask.view, topic, starts, bounds, query.limit, matches)
    if query.start == "newest" and not ask.query("from"):
        return await read_backward(ask.view, topic, bounds.end, bounds, query.limit)
    return await read_forward(ask.view, topic, starts, bounds, query.limit)


async def bounds_of(view: ClusterView, topic: str, numbers: list[int]) -> Bounds:
    """Where partitions begin and end."""
    wanted = [TopicPartition(topic, each) for each in numbers]
    first, end = await asyncio.gather(view.offsets_at(wanted, EARLIEST), view.offsets_at(wanted, LATEST))
    both = [each for each in wanted if each in first and each in end]
    return Bounds({each.partition: first[each] for each in both}, {each.partition: end[each] for each in both})


async def _at_time(view: ClusterView, topic: str, bounds: Bounds, time_ms: int) -> dict[int, int]:
    """The first offsets at or after a time; the end where there is no such record."""
    found = await view.offsets_at([TopicPartition(topic, each) for each in bounds.end], time_ms)
    places = {where.partition: offset for where, offset in found.items()}
    return {each: places[each] if places.get(each, -1) >= 0 else end for each, end in bounds.end.items()}


def _rows(ask: Ask, topic: str, found: Found, form: Format) -> list[MessageRow]:
    """Runs in a thread: a registry may be asked."""
    return [_row(ask, topic, record, form) for record in found.records]


def _row(ask: Ask, topic: str, record: Record, form: Format) -> MessageRow:
    decoder = ask.console.decoder
    headers = [(name, show(value, Format.AUTO)) for name, value in record.headers]
    return MessageRow(record, decoder.show(topic, record.key, form), decoder.show(topic, record.value, form), headers)


def _continued(ask: Ask, name: str, cursor: Any) -> str:
    if cursor is None:
        return ""
    query = {key: value for key, value in ask.request.query_params.items() if key not in ("before", "from")}
    return link(str(ask.request.url.path), **{**query, name: write_cursor(cursor)})


def _formats(ask: Ask) -> list[tuple[str, str]]:
    names = [("auto", "Detect"), ("json", "JSON"), ("text", "Text"), ("hex", "Hexadecimal")]
    return names + ([("registry", "Schema registry")] if ask.console.decoder.is_there else [])


async def show_message(ask: Ask) -> Response:
    """One record, whole."""
    topic = (await ask.view.snapshot.get()).topic(ask.part("topic"))
    partition = parse_number("partition", ask.part("partition"))
    offset = parse_number("offset", ask.part("offset"))
    bounds = await bounds_of(ask.view, topic.name, [partition] if partition < len(topic.partitions) else [])
    found = await read_forward(ask.view, topic.name, {partition: offset}, bounds, 1)
    if not found.records or found.records[0].offset != offset:
        raise PageError(
            404,
            "It does not exist",
            f"Partition {partition} of {topic.name} has no record at offset {offset}.",
            "It was deleted or compacted, it is a transaction marker, or it was not written yet.",
        )
    row = (await asyncio.to_thread(_rows, ask, topic.name, found, _query(ask).form))[0]
    return ask.render(
        "message.html", area="topics", tab="messages", topic=topic, row=row, formats=_formats(ask), query=_query(ask)
    )


async def _produce_form(ask: Ask) -> Form:
    topic = (await ask.view.snapshot.get()).topic(ask.part("topic"))
    return Form(
        f"Produce a record to {topic.name}",
        [
            Field("key", "Key", required=False, hint="Empty: no key."),
            Field("value", "Value", kind="textarea", required=False, hint="Sent as UTF-8 text."),
            Field("tombstone", "No value: a tombstone", kind="checkbox", required=False),
            Field("headers", "Headers", kind="textarea", required=False, hint="One name=value per line."),
            Field(
                "partition", "Partition", kind="number", required=False, hint="Empty: chosen by the key, or at random."
            ),
        ],
        "Produce",
        topic_url(topic.name, "messages"),
    )


async def _produce(ask: Ask, values: Values) -> Done:
    topic = (await ask.view.snapshot.get()).topic(ask.part("topic"))
    headers = []
    for line in values.get("headers", "").splitlines():
        if line.strip():
            name, equals, content = line.partition("=")
            if not equals:
                raise PageError(400, "A header cannot be read", f"{line!r} is not name=value.")
            headers.append((name.strip(), content.strip().encode()))
    given = values.get("partition", "").strip()
    partition = parse_number("Partition", given, 0, len(topic.partitions) - 1) if given else None
    key = values.get("key", "").encode() or None
    # Browsers send line ends of text areas as CR LF.
    value = None if values.get("tombstone") == "1" else values.get("value", "").replace("\r\n", "\n").encode()
    async with ask.view.producer() as producer:
        sent = await producer.send_and_wait(topic.name, value, key, partition=partition, headers=headers)
    return Done(
        topic_url(topic.name, "messages"),
        f"The record was written to partition {sent.partition} at offset {sent.offset:,}.",
    )


AREA = Area(
    pages={
        "/topics/{topic}/messages": show_messages,
        "/topics/{topic}/messages/{partition}/{offset}": show_message,
    },
    acts=[Act("/topics/{topic}/produce", _produce_form, _produce)],
)
