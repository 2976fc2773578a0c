"""Messages: browse a topic by offset, time and key, search it, look at one record, and produce one."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.responses import JSONResponse, Response

from tidelog.client.aio.admin.types import TopicDescription
from tidelog.client.durations import parse_when_ms
from tidelog.console.columns import Cell, Column, cells_of, parse_columns
from tidelog.console.errors import PageError
from tidelog.console.formats import Format, Shown, show
from tidelog.console.pages.routing import Area
from tidelog.console.pages.topics import show_part
from tidelog.console.reading import FilterError, bounds_of, make_filter, offsets_at_time, read
from tidelog.console.scan import Bounds, Cursor, CursorError, Found, Record, parse_cursor, write_cursor
from tidelog.console.settings import Login
from tidelog.console.snippets import Place, as_json, snippets_of
from tidelog.console.text import count as counted
from tidelog.console.web import Ask, link, parse_number

COUNTS: Final = (25, 50, 100, 200)
STARTS: Final = (
    ("newest", "Newest first"),
    ("oldest", "Oldest first"),
    ("offset", "From an offset"),
    ("time", "From a time"),
)
PARTS: Final = (("all", "Everything"), ("key", "Key"), ("value", "Value"), ("headers", "Headers"))
PLACE: Final = ("before", "from", "searched", "matched")
"""What an address has beside what the form asks for."""


class MessageRow(NamedTuple):
    """A record on a page."""

    record: Record
    key: Shown
    value: Shown
    headers: list[tuple[str, Shown]]
    cells: Sequence[Cell] = ()
    """What the columns of the page hold, if it has any."""


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
    columns: str

    @property
    def is_search(self) -> bool:
        """Whether records are chosen by their contents."""
        return bool(self.key or self.text)


class Reading(NamedTuple):
    """Where a page begins to read, and in which direction."""

    bounds: Bounds
    begin: Cursor
    is_backward: bool


class Page(NamedTuple):
    """The records of a page in the order that was asked for, what a search has to say, and the pages beside it."""

    records: Sequence[Record] = ()
    sentence: str = ""
    empty: str = ""
    older: str = ""
    newer: str = ""
    onward: str = ""
    """The address at which a search goes on."""
    unread: Sequence[int] = ()
    """Partitions that could not be read."""


async def show_messages(ask: Ask) -> Response:
    """A page of records."""
    topic = await ask.view.topic(ask.part("topic"))
    query = query_of(ask)
    problem = ""
    page = Page()
    columns: Sequence[Column] = ()
    try:
        columns = parse_columns(query.columns)
        page = await _page(ask, topic.name, partitions_of(topic, query), query)
    except (CursorError, FilterError, ValueError) as error:
        problem = f"{error}."[0].upper() + f"{error}."[1:]
    rows = await asyncio.to_thread(rows_of, ask, topic.name, page.records, query.form, columns)
    return await show_part(
        ask,
        topic,
        "messages",
        "messages.html",
        400 if problem else 200,
        rows=rows,
        columns=columns,
        page=page,
        query=query,
        problem=problem,
        partitions=len(topic.partitions),
        formats=formats_of(ask),
        counts=COUNTS,
        starts=STARTS,
        parts=PARTS,
    )


def partitions_of(topic: TopicDescription, query: Query) -> list[int]:
    """The partitions that a query is about. Raises PageError."""
    if query.partition is None:
        return [each.partition for each in topic.partitions]
    if query.partition >= len(topic.partitions):
        last = len(topic.partitions) - 1
        raise PageError(404, "It does not exist", f"{topic.name} has partitions 0 to {last}, not {query.partition}.")
    return [query.partition]


def query_of(ask: Ask) -> Query:
    """What the address asks for."""
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
        ask.query("columns").strip(),
    )


async def _page(ask: Ask, topic: str, numbers: list[int], query: Query) -> Page:
    matches = make_filter(query.text, query.where, query.key) if query.is_search else None
    reading = await _reading(ask, topic, numbers, query)
    bounds, begin, is_backward = reading
    found = await read(ask.view, topic, begin, bounds, query.limit, matches, newest_first=is_backward)
    is_in_order = is_backward == (query.start == "newest")
    page = Page(
        found.records if is_in_order else found.records[::-1],
        empty="There are no records here." if found.onward is None else "No record was read in time.",
        unread=[each for each in numbers if each not in bounds.end],
    )
    if query.is_search:
        return _search_page(ask, query, page, reading, found)
    has_older = any(begin[each] > bounds.first[each] for each in begin)
    has_newer = any(begin[each] < bounds.end[each] for each in begin)
    before, behind = (found.onward, begin if has_newer else None)
    if not is_backward:
        before, behind = (begin if has_older else None, found.onward)
    return page._replace(older=_continued(ask, before=before), newer=_continued(ask, **{"from": behind}))


async def _reading(ask: Ask, topic: str, numbers: list[int], query: Query) -> Reading:
    bounds = await bounds_of(ask.view, topic, numbers)
    if before := ask.query("before"):
        return Reading(bounds, {**bounds.end, **bounds.clamp(parse_cursor(before))}, True)
    if given := ask.query("from"):
        return Reading(bounds, {**bounds.first, **bounds.clamp(parse_cursor(given))}, False)
    if query.start == "newest":
        return Reading(bounds, bounds.end, True)
    begin = bounds.first
    if query.start == "time":
        begin = await offsets_at_time(ask.view, topic, bounds, parse_when_ms(query.time, time.time_ns() // 1_000_000))
    elif query.start == "offset":
        begin = bounds.clamp(dict.fromkeys(bounds.first, parse_number("offset", query.offset or "0")))
    return Reading(bounds, begin, False)


def _search_page(ask: Ask, query: Query, page: Page, reading: Reading, found: Found) -> Page:
    """The page of one step of a search: how far it came, and where the next one goes on.

    The address carries what earlier steps did, so that each page can say it of the whole search.
    """
    searched = ask.number("searched", 0) + found.searched
    matched = ask.number("matched", 0) + len(found.records)
    total = searched + found.left
    matches, further = counted(matched, "match", "matches"), "further " * bool(matched)
    scope = _scope(query) + " in the partitions that could be read" * bool(page.unread)
    if found.onward is None:
        return page._replace(
            sentence=f"Searched all of {counted(total, 'record')}{scope}: {matches if matched else 'no match'}.",
            empty=f"No {further}record{scope} matches.",
        )
    cursor = {"before" if reading.is_backward else "from": found.onward}
    return page._replace(
        sentence=f"Searched {searched:,} of {total:,} records{scope}; {matches if matched else 'no match'} so far.",
        empty=f"No {further}match so far. Search on to look at the rest.",
        onward=_continued(ask, searched=searched, matched=matched, **cursor),
    )


def _scope(query: Query) -> str:
    """Which records of the topic a search is about, if not all."""
    partition = "" if query.partition is None else f" of partition {query.partition}"
    start = {"offset": f" from offset {query.offset or 0} on", "time": f" from {query.time} on"}
    return partition + start.get(query.start, "")


def rows_of(
    ask: Ask, topic: str, records: Sequence[Record], form: Format, columns: Sequence[Column] = ()
) -> list[MessageRow]:
    """Records as a page shows them. Runs in a thread: a registry may be asked."""
    return [_row(ask, topic, record, form, columns) for record in records]


def _row(ask: Ask, topic: str, record: Record, form: Format, columns: Sequence[Column]) -> MessageRow:
    decoder = ask.cluster.decoder
    headers = [(name, show(value, Format.AUTO)) for name, value in record.headers]
    value = decoder.show(topic, record.value, form)
    cells = cells_of(value.text, columns) if columns else ()
    return MessageRow(record, decoder.show(topic, record.key, form), value, headers, cells)


def _continued(ask: Ask, **place: Any) -> str:
    """The address of this page at another place; empty if there is none."""
    if None in place.values():
        return ""
    query = {key: value for key, value in ask.request.query_params.items() if key not in PLACE}
    place = {key: write_cursor(value) if isinstance(value, Mapping) else value for key, value in place.items()}
    return link(ask.path, **{**query, **place})


def formats_of(ask: Ask) -> list[tuple[str, str]]:
    """The formats to choose from."""
    names = [("auto", "Detect"), ("json", "JSON"), ("text", "Text"), ("hex", "Hexadecimal")]
    return names + ([("registry", "Schema registry")] if ask.cluster.decoder.is_there else [])


async def record_at(ask: Ask, topic: TopicDescription, partition: int, offset: int) -> Record:
    """The record at an offset. Raises PageError if there is none."""
    bounds = await bounds_of(ask.view, topic.name, [partition] if partition < len(topic.partitions) else [])
    is_there = bounds.first.get(partition, 0) <= offset < bounds.end.get(partition, 0)
    one = Bounds({partition: offset}, {partition: offset + 1})
    found = await read(ask.view, topic.name, one.first, one, 1, newest_first=False) if is_there else Found()
    if not found.records:
        raise PageError(
            404,
            "It does not exist",
            f"Partition {partition} of {topic.name} has no record at offset {offset}.",
            "It was deleted or compacted, it is a transaction marker, or it was not written yet.",
        )
    return found.records[0]


async def show_message(ask: Ask) -> Response:
    """One record, whole."""
    topic = await ask.view.topic(ask.part("topic"))
    partition = parse_number("partition", ask.part("partition"))
    offset = parse_number("offset", ask.part("offset"))
    record = await record_at(ask, topic, partition, offset)
    if ask.query("as") == "json":
        return JSONResponse(as_json(record))
    row = (await asyncio.to_thread(rows_of, ask, topic.name, [record], query_of(ask).form))[0]
    return ask.render(
        "message.html",
        area="topics",
        tab="messages",
        topic=topic,
        row=row,
        formats=formats_of(ask),
        query=query_of(ask),
        snippets=snippets_of(record, _place(ask)),
    )


def _place(ask: Ask) -> Place:
    return Place(
        ask.cluster.servers,
        str(ask.view.client_settings.get("security.protocol", "PLAINTEXT")).upper() != "PLAINTEXT",
        str(ask.request.url.replace(query="as=json")),
        "" if ask.cluster.login is Login.NONE else ask.console.cookie,
    )


AREA = Area(
    pages={
        "/topics/{topic}/messages": show_messages,
        "/topics/{topic}/messages/{partition}/{offset}": show_message,
    }
)
