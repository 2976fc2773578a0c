"""Delayed records: what waits in a topic for its time, and the acts that cancel or reschedule it."""

import asyncio
import time
from typing import Final, NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.types import DelayedRecord, TopicDescription
from tidelog.client.durations import DurationError, milliseconds, parse_moment_ms
from tidelog.console.errors import PageError
from tidelog.console.formats import Format, Shown, show
from tidelog.console.forms import Act, Done, Field, Form, Values, confirm_name
from tidelog.console.pages.routing import Area
from tidelog.console.pages.topics import show_part, topic_url
from tidelog.console.text import count, moment
from tidelog.console.web import Ask, Paged, paged, parse_number

PAGE_SIZE: Final = 50
LISTED_MAX: Final = 1000
"""The next due records that can be paged through; brokers sort and read what they list."""


class DelayedRow(NamedTuple):
    """A record that waits."""

    record: DelayedRecord
    key: Shown
    due_in_s: float


class Chosen(NamedTuple):
    """The records that an act is about: all of a key, or one by its partition and offset."""

    topic: TopicDescription
    partitions: list[int] | None
    key: bytes | None
    offset: int | None

    def __str__(self) -> str:
        if self.offset is not None:
            return f"The record at offset {self.offset:,} of partition {(self.partitions or [0])[0]}"
        return f"Every waiting record with the key {(self.key or b'').decode()!r}"


async def show_list(ask: Ask) -> Response:
    """The records that wait, the next due first."""
    topic = await ask.view.topic(ask.part("topic"))
    partition = ask.number("partition", 0, 0, len(topic.partitions) - 1) if ask.query("partition").strip() else None
    rows, page = await _listed(ask, topic, None if partition is None else [partition], ask.query("key"))
    return await show_part(
        ask,
        topic,
        "delayed",
        "delayed.html",
        rows=await asyncio.to_thread(_rows, ask, topic.name, rows),
        page=page,
        key=ask.query("key"),
        partition=partition,
        listed_max=LISTED_MAX,
    )


async def _listed(
    ask: Ask, topic: TopicDescription, partitions: list[int] | None, key: str
) -> tuple[list[DelayedRecord], Paged]:
    """One page. Of a key all that wait are asked for: what brokers count is of every key."""
    wanted = min(ask.number("page", 1, 1) * PAGE_SIZE, LISTED_MAX)
    limit = LISTED_MAX if key else wanted
    found = await ask.view.delayed(topic, partitions, key=key.encode() if key else None, limit=limit)
    records = sorted(each for listing in found.values() for each in listing.records)[:LISTED_MAX]
    total = len(records) if key else min(sum(listing.waiting for listing in found.values()), LISTED_MAX)
    page = paged(ask, range(total), PAGE_SIZE)
    return [records[index] for index in page.rows if index < len(records)], page


def _rows(ask: Ask, topic: str, records: list[DelayedRecord]) -> list[DelayedRow]:
    """Runs in a thread: a registry may be asked."""
    now_s = time.time()
    return [
        DelayedRow(each, ask.cluster.decoder.show(topic, each.key, Format.AUTO), each.deliver_at_ms / 1000 - now_s)
        for each in records
    ]


# Acts.


async def _chosen(ask: Ask) -> Chosen:
    topic = await ask.view.topic(ask.part("topic"))
    if ask.query("offset"):
        partition = parse_number("partition", ask.query("partition"), 0, len(topic.partitions) - 1)
        return Chosen(topic, [partition], None, parse_number("offset", ask.query("offset")))
    if not ask.query("key"):
        raise PageError(400, "Nothing was chosen", "The address names neither the offset nor the key of a record.")
    return Chosen(topic, None, ask.query("key").encode(), None)


async def _described(ask: Ask, chosen: Chosen) -> list[str]:
    """What a form says of the records; a record far from its time is only named."""
    found = await ask.view.delayed(chosen.topic, chosen.partitions, key=chosen.key, limit=LISTED_MAX)
    records = [each for listing in found.values() for each in listing.records]
    if chosen.offset is None:
        return [f"{chosen} is meant: {count(len(records), 'record')}{' or more' * (len(records) >= LISTED_MAX)} now."]
    sentences = [f"{chosen} is meant."]
    for each in records:
        if each.offset == chosen.offset:
            key = show(each.key, Format.AUTO)
            named = "has no key" if key.is_null else f"has the key {key.text}"
            sentences.append(f"It {named} and is due at {moment(each.deliver_at_ms)}.")
    return sentences


def _back(chosen: Chosen) -> str:
    return topic_url(chosen.topic.name, "delayed")


def _outcome(chosen: Chosen, changed: int, what: str) -> Done:
    if not changed:
        raise PageError(
            409, "Nothing was changed", f"{chosen} waits no more: it was delivered, cancelled or rescheduled."
        )
    return Done(_back(chosen), f"{count(changed, 'record was', 'records were')} {what}.")


async def _cancel_form(ask: Ask) -> Form:
    chosen = await _chosen(ask)
    return Form(
        f"Cancel delayed records of {chosen.topic.name}",
        [confirm_name(chosen.topic.name, "topic")],
        "Cancel for good",
        _back(chosen),
        [*await _described(ask, chosen), "What is cancelled never becomes visible. This cannot be undone."],
        is_danger=True,
    )


async def _cancel(ask: Ask, values: Values) -> Done:
    del values
    chosen = await _chosen(ask)
    changed = await (await ask.view.admin()).cancel_delayed_records(
        chosen.topic.name, chosen.partitions, key=chosen.key, offset=chosen.offset
    )
    return _outcome(chosen, changed, "cancelled")


async def _reschedule_form(ask: Ask) -> Form:
    chosen = await _chosen(ask)
    return Form(
        f"Reschedule delayed records of {chosen.topic.name}",
        [
            Field(
                "time",
                "New time",
                hint="From now on, such as 10m, 2h30m or 0s; or in UTC, such as 2026-01-31T12:00:00Z.",
            )
        ],
        "Reschedule",
        _back(chosen),
        await _described(ask, chosen),
    )


async def _reschedule(ask: Ask, values: Values) -> Done:
    chosen = await _chosen(ask)
    deliver_at_ms = _time(values["time"].strip())
    changed = await (await ask.view.admin()).reschedule_delayed_records(
        chosen.topic.name, deliver_at_ms, chosen.partitions, key=chosen.key, offset=chosen.offset
    )
    return _outcome(chosen, changed, f"rescheduled to {moment(deliver_at_ms)}")


def _time(given: str) -> int:
    """A length of time from now on, or a time. Raises PageError."""
    try:
        return time.time_ns() // 1_000_000 + milliseconds(given)
    except DurationError:
        try:
            return parse_moment_ms(given)
        except ValueError:
            raise PageError(
                400, "The time cannot be read", f"{given!r} is neither a length of time such as 10m nor a time."
            ) from None


AREA = Area(
    pages={"/topics/{topic}/delayed": show_list},
    acts=[
        Act("/topics/{topic}/delayed/cancel", _cancel_form, _cancel),
        Act("/topics/{topic}/delayed/reschedule", _reschedule_form, _reschedule),
    ],
)
