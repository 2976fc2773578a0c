"""Groups: the list with lag, one group with members and partitions, reset with a preview, delete."""

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.types import EARLIEST, LATEST, GroupDescription, GroupListing, MemberDescription
from tidelog.client.errors import ClientError
from tidelog.client.group_resets import (
    RESETTABLE_STATES,
    Bounds,
    Offsets,
    Way,
    parse_plan,
    parse_target,
    write_plan,
)
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.console.cluster_view import ClusterView
from tidelog.console.errors import PageError
from tidelog.console.forms import Act, Done, Field, Form, Values, confirm_name
from tidelog.console.pages.routing import Area
from tidelog.console.pages.topics import show_part
from tidelog.console.samples import total_lag
from tidelog.console.web import Ask, link, paged
from tidelog.wire.errors import ApiError, ErrorCode

PAGE_SIZE: Final = 50
SHARE: Final = "share"
"""The type of groups that have pages of their own."""
STATES: Final = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Dead")
WAYS: Final = (
    (Way.EARLIEST.value, "To the earliest offset"),
    (Way.LATEST.value, "To the latest offset"),
    (Way.OFFSET.value, "To an offset"),
    (Way.SHIFT.value, "By a number of records, back if negative"),
    (Way.TIME.value, "To a time, such as 2026-01-31T12:00:00Z"),
    (Way.DURATION.value, "To a time ago, such as PT2H or P1D"),
)


class GroupRow(NamedTuple):
    """A group in the list; None for what is not known yet."""

    listing: GroupListing
    members: int | None
    lag: int | None


class ReaderRow(NamedTuple):
    """A group that reads a topic."""

    group_id: str
    state: str
    members: int
    """Those that are assigned partitions of the topic."""
    partitions: int
    """With committed offsets."""
    lag: int


class ProgressRow(NamedTuple):
    """One partition of a group."""

    where: TopicPartition
    committed: int | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """Records behind the end."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


async def show_list(ask: Ask) -> Response:
    """The groups whose ids contain a text."""
    wanted, state = ask.query("q").strip().lower(), ask.query("state")
    lags = ask.view.sampler.lags
    groups = [
        each
        for each in await ask.view.groups.get()
        if each.type.lower() != SHARE and wanted in each.group_id.lower() and (not state or each.state == state)
    ]
    if ask.query("sort") == "lag":
        groups.sort(key=lambda each: -(lags.lag_of(each.group_id) or 0))
    page = paged(ask, groups, PAGE_SIZE)
    described = await _described(ask, [each.group_id for each in page.rows])
    rows = [
        GroupRow(
            each,
            len(described[each.group_id].members) if each.group_id in described else None,
            lags.lag_of(each.group_id),
        )
        for each in page.rows
    ]
    return ask.render(
        "groups.html",
        area="groups",
        rows=rows,
        page=page,
        q=ask.query("q"),
        state=state,
        states=STATES,
        lags=lags,
        by_lag=ask.query("sort") == "lag",
    )


async def _described(ask: Ask, names: list[str]) -> dict[str, GroupDescription]:
    """The groups of a page; without those that this user may not see."""
    if not names:
        return {}
    try:
        return await (await ask.view.admin()).describe_groups(names)
    except (ClientError, ApiError):
        return {}


async def show_group(ask: Ask) -> Response:
    """One group."""
    described, committed = await _load(ask)
    rows = await _progress(ask, described, committed)
    known = [row.lag for row in rows if row.lag is not None]
    return ask.render(
        "group.html",
        area="groups",
        group=described,
        rows=paged(ask, rows, 100),
        lag=sum(known) if known else None,
        topics=sorted({row.where.topic for row in rows}),
        series=ask.view.sampler.lags.of_group(described.group_id),
        may_change=described.state in RESETTABLE_STATES,
    )


async def _load(ask: Ask) -> tuple[GroupDescription, dict[TopicPartition, int]]:
    """The group that the query names, and its offsets; ApiError if it does not exist."""
    group = ask.query("id")
    if not group:
        raise PageError(400, "A group is missing", "The address names no group.")
    admin = await ask.view.admin()
    described = (await admin.describe_groups([group]))[group]
    committed = {where: place.offset for where, place in (await admin.list_consumer_group_offsets(group)).items()}
    if described.state == "Dead" and not committed:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group!r} does not exist")
    return described, committed


async def _progress(ask: Ask, described: GroupDescription, committed: dict[TopicPartition, int]) -> list[ProgressRow]:
    readers = {where: member for member in described.members for where in member.assignment}
    partitions = sorted(committed.keys() | readers.keys())
    ends = await ask.view.end_offsets(partitions)
    return [ProgressRow(each, committed.get(each), ends.get(each), readers.get(each)) for each in partitions]


async def show_readers(ask: Ask) -> Response:
    """The groups that have committed offsets of a topic. Which they are is sampled; the rows of the page are exact."""
    topic = await ask.view.topic(ask.part("topic"))
    sampler = ask.view.sampler
    page = paged(ask, sorted(sampler.lags_of_topic(topic.name)), PAGE_SIZE)
    described = await _described(ask, list(page.rows))
    ends = await ask.view.end_offsets([TopicPartition(topic.name, each.partition) for each in topic.partitions])
    found = await asyncio.gather(*(_reader(ask, group, described.get(group), ends) for group in page.rows))
    rows = [each for each in found if each is not None]
    return await show_part(ask, topic, "groups", "topic_groups.html", rows=rows, page=page, is_known=sampler.has_lags)


async def _reader(
    ask: Ask, group: str, described: GroupDescription | None, ends: Mapping[TopicPartition, int]
) -> ReaderRow | None:
    """A group as a reader of the partitions in `ends`; None if it has gone, or this user may no longer see it."""
    try:
        committed = await (await ask.view.admin()).list_consumer_group_offsets(group)
    except (ClientError, ApiError):
        return None
    offsets = {where: place.offset for where, place in committed.items() if where in ends}
    members = () if described is None else described.members
    reading = sum(any(where in ends for where in member.assignment) for member in members)
    return ReaderRow(group, described.state if described else "", reading, len(offsets), total_lag(offsets, ends))


def group_url(group: str, act: str = "") -> str:
    """The address of a group or of an act on it."""
    return link(f"/group/{act}" if act else "/group", id=group)


# Acts.


async def _reset_form(ask: Ask) -> Form:
    described, committed = await _load(ask)
    topics = sorted({where.topic for where in committed})
    choices = [("", "All topics with committed offsets")] if topics else []
    return Form(
        f"Reset offsets of {described.group_id}",
        [
            Field("topic", "Topic", kind="select", options=choices + [(each, each) for each in topics], required=False),
            Field("other_topic", "Another topic", required=False, hint="One that the group has not committed yet."),
            Field("way", "Reset", kind="select", options=WAYS),
            Field("argument", "Offset, number, time or duration", required=False),
        ],
        "Preview",
        group_url(described.group_id),
        [
            "The next page shows the new offset of each partition before anything is changed.",
            *(
                [f"The group is {described.state}: offsets can be reset only while it has no members."]
                * (described.state not in RESETTABLE_STATES)
            ),
        ],
        area="groups",
    )


async def _reset(ask: Ask, values: Values) -> Form:
    described, committed = await _load(ask)
    topic = values.get("other_topic", "").strip() or values.get("topic", "")
    if topic:
        found = await ask.view.topic(topic)
        partitions = [TopicPartition(topic, each.partition) for each in found.partitions]
    else:
        partitions = sorted(committed)
    if not partitions:
        raise PageError(400, "A topic is missing", "The group has no offsets; name a topic.")
    planned = await _plan(ask.view, values.get("way", ""), values.get("argument", ""), committed, partitions)
    return Form(
        f"Reset offsets of {described.group_id}",
        [Field("plan", "", write_plan(planned), kind="hidden")],
        f"Reset {len(planned):,} {'partition' if len(planned) == 1 else 'partitions'}",
        group_url(described.group_id, "reset"),
        ["The group reads from the new offsets when its members start again."],
        is_danger=True,
        headings=("Topic", "Partition", "Committed", "New offset", "Change"),
        rows=[
            (
                *where,
                f"{committed[where]:,}" if where in committed else "–",
                f"{target:,}",
                f"{target - committed[where]:+,}" if where in committed else "–",
            )
            for where, target in sorted(planned.items())
        ],
        area="groups",
        action=group_url(described.group_id, "reset/execute"),
    )


async def _plan(
    view: ClusterView,
    way: str,
    argument: str,
    committed: Mapping[TopicPartition, int],
    partitions: Collection[TopicPartition],
) -> Offsets:
    """The offsets that a reset sets, of partitions that can be read. Raises PageError if the argument does not fit."""
    try:
        target = parse_target(way, argument, time.time_ns() // 1_000_000)
        first, last = await asyncio.gather(view.offsets_at(partitions, EARLIEST), view.offsets_at(partitions, LATEST))
        at_time = {} if target.time_ms is None else await view.offsets_at(partitions, target.time_ms)
        return target.resolve(Bounds(first, last), committed, at_time)
    except ValueError as error:
        raise _unusable(error) from None


def _read_plan(text: str) -> Offsets:
    """A plan that a preview showed. Raises PageError."""
    try:
        return parse_plan(text)
    except ValueError as error:
        raise _unusable(error) from None


def _unusable(error: ValueError) -> PageError:
    text = str(error)
    return PageError(400, "The reset cannot be planned", text[0].upper() + text[1:] + ".")


async def _execute_form(ask: Ask) -> Form:
    group = ask.query("id")
    return Form(
        f"Reset offsets of {group}",
        [Field("plan", "The plan", kind="hidden")],
        "Try again",
        group_url(group, "reset"),
        is_danger=True,
        area="groups",
    )


async def _execute(ask: Ask, values: Values) -> Done:
    group = ask.query("id")
    targets = _read_plan(values.get("plan", ""))
    admin = await ask.view.admin()
    state = (await admin.describe_groups([group]))[group].state
    if state not in RESETTABLE_STATES:
        raise PageError(409, "The group is active", f"Group {group!r} is {state}: stop its members first.")
    await admin.alter_consumer_group_offsets(group, {each: OffsetAndMetadata(to) for each, to in targets.items()})
    return Done(group_url(group), f"The offsets of {len(targets):,} partitions of {group} were reset.")


async def _delete_form(ask: Ask) -> Form:
    described, committed = await _load(ask)
    return Form(
        f"Delete group {described.group_id}",
        [confirm_name(described.group_id, "group")],
        "Delete the group",
        group_url(described.group_id),
        [
            f"The group and its committed offsets of {len(committed):,} partitions are deleted.",
            "Consumers that use it later start where auto.offset.reset says.",
            *(
                [f"The group is {described.state}: stop its members first."]
                * (described.state not in RESETTABLE_STATES)
            ),
        ],
        is_danger=True,
        area="groups",
    )


async def _delete(ask: Ask, values: Values) -> Done:
    del values
    group = ask.query("id")
    await (await ask.view.admin()).delete_groups([group])
    return Done("/groups", f"Group {group} was deleted.")


AREA = Area(
    pages={"/groups": show_list, "/group": show_group, "/topics/{topic}/groups": show_readers},
    acts=[
        Act("/group/reset", _reset_form, _reset),
        Act("/group/reset/execute", _execute_form, _execute),
        Act("/group/delete", _delete_form, _delete),
    ],
)
