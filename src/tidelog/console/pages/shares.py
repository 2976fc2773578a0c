"""Share groups: the list, and one group with members, start offsets, lag and the limits of its queue."""

from typing import Final

from starlette.responses import Response

from tidelog.client.aio.admin.types import ConfigEntry, ConfigResource, GroupDescription, ResourceType
from tidelog.client.errors import ClientError
from tidelog.console.errors import PageError
from tidelog.console.pages.groups import SHARE
from tidelog.console.pages.routing import Area
from tidelog.console.web import Ask, paged
from tidelog.wire.errors import ApiError

PAGE_SIZE: Final = 50
_OF_GROUP: Final = ("share.", "errors.deadletterqueue.")
_OF_BROKERS: Final = "group.share."


async def show_list(ask: Ask) -> Response:
    """The share groups whose ids contain a text."""
    wanted = ask.query("q").strip().lower()
    groups = [
        each for each in await ask.view.groups.get() if each.type.lower() == SHARE and wanted in each.group_id.lower()
    ]
    page = paged(ask, groups, PAGE_SIZE)
    described = await _described(ask, [each.group_id for each in page.rows])
    rows = [(each, described.get(each.group_id)) for each in page.rows]
    return ask.render("shares.html", area="shares", rows=rows, page=page, q=ask.query("q"))


async def _described(ask: Ask, names: list[str]) -> dict[str, GroupDescription]:
    """The groups of a page; without those that this user may not see."""
    if not names:
        return {}
    try:
        return await (await ask.view.admin()).describe_share_groups(names)
    except (ClientError, ApiError):
        return {}


async def show_group(ask: Ask) -> Response:
    """One share group."""
    group = ask.query("id")
    if not group:
        raise PageError(400, "A group is missing", "The address names no group.")
    admin = await ask.view.admin()
    described = (await admin.describe_share_groups([group]))[group]
    offsets = await admin.list_share_group_offsets(group)
    known = [each.lag for each in offsets.values() if each.lag is not None]
    return ask.render(
        "share.html",
        area="shares",
        group=described,
        rows=paged(ask, sorted(offsets.items()), 100),
        lag=sum(known) if known else None,
        topics=sorted({where.topic for where in offsets}),
        limits=await _limits(ask, group),
    )


async def _limits(ask: Ask, group: str) -> list[ConfigEntry]:
    """The settings of the group's queue: its own, or those of the brokers where they do not know of its own."""
    admin = await ask.view.admin()
    try:
        resource = ConfigResource(ResourceType.GROUP, group)
        found = (await admin.describe_configs([resource]))[resource]
        own = [each for name, each in sorted(found.items()) if name.startswith(_OF_GROUP)]
        if own:
            return own
        resource = ConfigResource(ResourceType.BROKER, str((await admin.describe_cluster()).nodes[0].node_id))
        found = (await admin.describe_configs([resource]))[resource]
        return [each for name, each in sorted(found.items()) if name.startswith(_OF_BROKERS)]
    except (ClientError, ApiError):
        return []  # this user may not see settings


AREA = Area(pages={"/shares": show_list, "/share": show_group})
