"""Live messages: a page that shows records as they are appended, and the server-sent events that it follows.

Events are `rows` (HTML of records), `rate` (a sentence) and `end` (a sentence). Their id is the cursor: a browser that
connects again goes on where it was.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from tidelog.client.aio.admin.types import TopicDescription
from tidelog.console.columns import Column, ColumnError, parse_columns
from tidelog.console.errors import explain
from tidelog.console.pages.messages import PARTS, Query, formats_of, partitions_of, query_of, rows_of
from tidelog.console.pages.routing import Area
from tidelog.console.pages.topics import show_part, topic_url
from tidelog.console.reading import FilterError, bounds_of, make_filter
from tidelog.console.scan import CursorError, parse_cursor, write_cursor
from tidelog.console.tail import SECONDS_MAX, TICK_S, Tick
from tidelog.console.text import duration, rate
from tidelog.console.web import Ask, link

_RATE_TICKS: Final = round(5 / TICK_S)


async def show_page(ask: Ask) -> Response:
    """The page; its script asks for the events."""
    topic = await ask.view.topic(ask.part("topic"))
    query = query_of(ask)
    partitions_of(topic, query)
    problem = ""
    columns: Sequence[Column] = ()
    try:
        make_filter(query.text, query.where, query.key)
        columns = parse_columns(query.columns)
    except (FilterError, ColumnError) as error:
        problem = f"{error}."[0].upper() + f"{error}."[1:]
    return await show_part(
        ask,
        topic,
        "live",
        "live.html",
        400 if problem else 200,
        query=query,
        columns=columns,
        problem=problem,
        events=link(topic_url(topic.name, "live", "events"), **ask.request.query_params),
        formats=formats_of(ask),
        parts=PARTS,
    )


async def stream(ask: Ask) -> Response:
    """The events."""
    topic = await ask.view.topic(ask.part("topic"))
    return StreamingResponse(_events(ask, topic, query_of(ask)), media_type="text/event-stream")


async def _events(ask: Ask, topic: TopicDescription, query: Query) -> AsyncIterator[str]:
    """Ends with an event that says why, so that the browser does not ask again."""
    try:
        ticks = _Ticks(ask, topic, query)
        async with aclosing(ticks.events()) as events:
            async for event in events:
                yield event
        ended = f"It ended after {duration(SECONDS_MAX)}, or with the session."
    except Exception as error:
        explained = explain(error)
        if explained is None and not isinstance(error, CursorError | FilterError | ColumnError):
            raise
        ended = explained.text if explained else f"{error}."
    yield _event("end", ended)


class _Ticks:
    """The events of one tail, and the sums that it shows."""

    def __init__(self, ask: Ask, topic: TopicDescription, query: Query) -> None:
        self._ask = ask
        self._topic = topic
        self._query = query
        self._columns = parse_columns(query.columns)
        self._recent: deque[Tick] = deque(maxlen=_RATE_TICKS)
        self._unseen = 0

    async def events(self) -> AsyncGenerator[str, None]:
        """Events until the tail ends. Raises what ends it."""
        ask, query = self._ask, self._query
        matches = make_filter(query.text, query.where, query.key) if query.is_search else None
        bounds = await bounds_of(ask.view, self._topic.name, partitions_of(self._topic, query))
        given = ask.request.headers.get("last-event-id") or ask.query("from")
        begin = {**bounds.end, **bounds.clamp(parse_cursor(given))}
        session, view = ask.session, ask.view

        def is_wanted() -> bool:
            return ask.console.sessions.is_open(session, ask.console.clock())

        async with ask.console.tails.open(view, self._topic.name, begin, matches, is_wanted) as ticks:
            async for tick in ticks:
                cursor = write_cursor(tick.cursor)
                self._recent.append(tick)
                self._unseen += tick.skipped + tick.matched - len(tick.shown)
                if tick.shown:
                    shown = self._topic.name, tick.shown, query.form, self._columns
                    rows = await asyncio.to_thread(rows_of, ask, *shown)
                    template = ask.cluster.environment.get_template("live_rows.html")
                    yield _event("rows", template.render(topic=self._topic, rows=rows[::-1]), cursor)
                yield _event("rate", self._sentence(), cursor)

    def _sentence(self) -> str:
        seconds = sum(each.seconds for each in self._recent)
        arrived = sum(each.seen + each.skipped for each in self._recent) / seconds
        parts = [f"{rate(arrived)} records/s"]
        if self._query.is_search:
            parts.append(f"{rate(sum(each.matched for each in self._recent) / seconds)} matches/s")
        if self._unseen:
            parts.append(f"{self._unseen:,} not shown, they came too fast")
        return ", ".join(parts)


def _event(name: str, data: Any, event_id: str = "") -> str:
    """One event; JSON has no line ends, which would end the data."""
    return (f"id: {event_id}\n" if event_id else "") + f"event: {name}\ndata: {json.dumps(data)}\n\n"


AREA = Area(pages={"/topics/{topic}/live": show_page, "/topics/{topic}/live/events": stream})
