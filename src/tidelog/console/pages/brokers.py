"""A broker: its share of the cluster, log directories, requests and settings, and where these differ from others'."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from starlette.responses import Response

from tidelog.client.aio.admin.types import ConfigSource, LogDirectory
from tidelog.client.errors import ClientError
from tidelog.console.comparison import Settings, differences
from tidelog.console.errors import PageError
from tidelog.console.pages.overview import BrokerRow, broker_rows, directories_of
from tidelog.console.pages.routing import Area
from tidelog.console.pages.topics import SOURCES
from tidelog.console.request_metrics import SETTING, RequestRow, address_of, fetch
from tidelog.console.web import Ask, parse_number
from tidelog.wire.errors import ApiError

OWN_SOURCES = {**SOURCES, ConfigSource.DYNAMIC_BROKER: "this broker, dynamic"}


class DirectoryRow(NamedTuple):
    """A log directory: what is in it, and what its disk has."""

    directory: LogDirectory
    replicas: int
    size_bytes: int


class Requests(NamedTuple):
    """The requests of a broker, or why they are not known."""

    rows: list[RequestRow]
    problem: str = ""


async def show_broker(ask: Ask) -> Response:
    """What a broker has and does."""
    row, settings = await _load(ask)
    node = row.node
    known = settings.get(node.node_id, {})
    directories, requests = await asyncio.gather(_directories(ask, node.node_id), _requests(known, node.host))
    return _show(
        ask,
        row,
        "overview",
        "broker.html",
        directories=directories,
        requests=requests,
        differences=differences(settings, node.node_id) if known else None,
        unread=sorted({each.node_id for each in (await ask.view.snapshot.get()).cluster.nodes} - settings.keys()),
        compared=len(settings) - 1,
    )


async def show_settings(ask: Ask) -> Response:
    """The settings of a broker: what was set before what is left at its default."""
    row, settings = await _load(ask)
    known = settings.get(row.node.node_id)
    if known is None:
        raise PageError(502, "The settings cannot be read", f"Broker {row.node.node_id} did not give its settings.")
    wanted = ask.query("q").strip().lower()
    entries = [entry for name, entry in sorted(known.items()) if wanted in name.lower()]
    entries.sort(key=lambda entry: entry.is_default)
    return _show(
        ask,
        row,
        "settings",
        "broker_settings.html",
        entries=entries,
        sources=OWN_SOURCES,
        default_source=int(ConfigSource.DEFAULT),
        differing={each.name for each in differences(settings, row.node.node_id)},
        q=ask.query("q"),
    )


def _show(ask: Ask, row: BrokerRow, tab: str, template: str, **context: Any) -> Response:
    return ask.render(template, area="overview", broker=row, tab=tab, **context)


async def _load(ask: Ask) -> tuple[BrokerRow, Mapping[int, Settings]]:
    broker = parse_number("broker", ask.part("broker"), 0, 1 << 31)
    snapshot, directories, settings = await asyncio.gather(
        ask.view.snapshot.get(), directories_of(ask), ask.view.broker_settings.get()
    )
    for row in broker_rows(snapshot, directories):
        if row.node.node_id == broker:
            return row, settings
    alive = ", ".join(str(node.node_id) for node in snapshot.cluster.nodes)
    raise PageError(404, "It does not exist", f"No broker {broker} is in the cluster, which has {alive}.")


async def _directories(ask: Ask, broker: int) -> list[DirectoryRow]:
    """The directories of a broker with their partitions; none if this user may not see them."""
    try:
        found = await (await ask.view.admin()).describe_log_dirs([broker])
    except (ClientError, ApiError):
        return []
    return [
        DirectoryRow(each, len(each.replicas), sum(replica.size_bytes for replica in each.replicas.values()))
        for each in found.get(broker, [])
    ]


async def _requests(settings: Settings, host: str) -> Requests:
    entry = settings.get(SETTING)
    if entry is None:
        return Requests([], "This broker does not serve its metrics over HTTP.")
    address = address_of(entry.value or "", host)
    if address is None:
        return Requests([], f"Set {SETTING} on this broker, to an address that the console can reach, to see them.")
    try:
        return Requests(await asyncio.to_thread(fetch, address))
    except OSError as error:
        return Requests([], f"The metrics cannot be read: {error}.")


AREA = Area(pages={"/brokers/{broker}": show_broker, "/brokers/{broker}/settings": show_settings})
