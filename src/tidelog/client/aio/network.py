"""The cluster under asyncio: connections to brokers, metadata kept fresh, coordinators, all with back-off.

Producers, consumers, admins and followers each own one `NetworkClient` and build on these few calls:

    await client.start()                                   bootstrap: the first metadata
    await client.send(node_id, request, Response)          waits for connection and a place in flight
    await client.send_to_any / find_coordinator
    client.ready_connection(node_id)                       never waits: for those who batch (producers)
    await client.metadata_for([topics]) / refresh()        the cache is `client.metadata`

There is a connection for each broker and `channel`, because a long Fetch would delay a heartbeat behind it.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from operator import attrgetter
from typing import Any, Final

from tidelog.client.addresses import parse_bootstrap_servers
from tidelog.client.aio.connection import NO_FEATURES, BrokerConnection, Connector, Response
from tidelog.client.aio.coordinators import CoordinatorLookup, CoordinatorType
from tidelog.client.aio.counters import BrokerCounters
from tidelog.client.aio.link import Link
from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.aio.reachability import Reachability
from tidelog.client.aio.refresher import MetadataRefresher
from tidelog.client.aio.secure_transport import connector_of
from tidelog.client.aio.settings import CommonSettings
from tidelog.client.errors import BrokerUnavailable, ClientClosed, ClientError
from tidelog.client.metrics import AnyMetrics, BrokerMetrics
from tidelog.client.types import BrokerNode
from tidelog.tasks import OwnedTasks
from tidelog.wire.schema import Message

_LOG: Final = logging.getLogger("tidelog.client")
DEFAULT_CHANNEL: Final = 0
COORDINATOR_CHANNEL: Final = 1


class NetworkClient:
    """Connects to the brokers of one cluster. Belongs to the loop in which it was created."""

    def __init__(
        self,
        settings: CommonSettings,
        *,
        in_flight_max: int = 100,
        topics_wanted: Callable[[], Iterable[str] | None] = tuple,
        may_create_topics: bool = False,
        connector: Connector | None = None,
    ) -> None:
        self.settings = settings
        self.metadata = MetadataCache(max_age_ms=settings.metadata_max_age_ms)
        self.in_flight_max = in_flight_max
        self.is_closed = False
        self._connector = connector or connector_of(settings)
        self._loop = asyncio.get_running_loop()
        self._bootstrap = {
            -1 - index: BrokerNode(-1 - index, host, port)
            for index, (host, port) in enumerate(parse_bootstrap_servers(settings.bootstrap_servers))
        }
        self._links: dict[tuple[int, int], Link] = {}
        self._counters: dict[int, BrokerCounters] = {}
        self._made_at = self._loop.time()
        self.reachability = Reachability(settings.bootstrap_timeout_ms, self.now_ms())
        self._tasks = OwnedTasks(self._task_ended)
        self._on_task_end: Callable[[], None] = _nothing
        self._refresher = MetadataRefresher(self, topics_wanted, may_create_topics)
        self._coordinators = CoordinatorLookup(self)
        self._idle_timer: asyncio.TimerHandle | None = None

    # Life.

    async def start(self, timeout_ms: int | None = None) -> None:
        """Reach one of the bootstrap servers and learn the cluster. Raises BootstrapFailed when none answers."""
        self._refresher.start()
        self._watch_idle()
        await self._refresher.refresh(timeout_ms)

    async def close(self, timeout_ms: int = 5000) -> None:
        """Drop all connections and end all tasks. Requests still open fail with ClientClosed."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        gone = ClientClosed("the client was closed")
        connections = [link.close(gone) for link in self._links.values()]
        self._tasks.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                await self._tasks.wait()
                for connection in connections:
                    if connection is not None:
                        await connection.wait_closed()
        self._links.clear()
        self._refresher.close(gone)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run `work` beside the caller, until it ends or the client is closed. It must handle its own errors."""
        return self._tasks.spawn(work)

    def _task_ended(self) -> None:
        self._on_task_end()

    def on_task_end(self, listener: Callable[[], None]) -> None:
        """Call `listener` at the end of every task that `spawn` has begun: what it has changed is to be looked at."""
        self._on_task_end = listener

    def now_ms(self) -> int:
        """Monotonic time, as all deadlines here use it."""
        return int(self._loop.time() * 1000)

    # Asking.

    async def send(
        self,
        node_id: int,
        request: Message,
        response: type[Response],
        *,
        timeout_ms: int | None = None,
        at_most: int | None = None,
        channel: int = DEFAULT_CHANNEL,
    ) -> Response:
        """Ask one broker. Waits for the connection, its back-off, and a place in flight."""
        return await self.link(node_id, channel).send(request, response, timeout_ms=timeout_ms, at_most=at_most)

    async def send_to_any(
        self, request: Message, response: type[Response], *, timeout_ms: int | None = None, at_most: int | None = None
    ) -> Response:
        """Ask the least busy broker, and the others in turn if it cannot be reached."""
        failures: dict[str, str] = {}
        for node in self.by_load():
            try:
                return await self.send(node.node_id, request, response, timeout_ms=timeout_ms, at_most=at_most)
            except BrokerUnavailable as error:
                failures[error.address] = error.reason
        tried = ", ".join(f"{address} ({reason})" for address, reason in failures.items())
        raise BrokerUnavailable(tried, "none of these answers", "check bootstrap.servers")

    async def find_coordinator(self, kind: CoordinatorType, key: str, timeout_ms: int | None = None) -> BrokerNode:
        """The broker that coordinates a group or transactional id: remembered, or asked for until there is one."""
        return await self._coordinators.find(kind, key, timeout_ms)

    def forget_coordinator(self, kind: CoordinatorType, key: str) -> None:
        """The remembered coordinator was wrong, or is unreachable: ask again next time."""
        self._coordinators.forget(kind, key)

    # Connections.

    def link(self, node_id: int, channel: int = DEFAULT_CHANNEL) -> Link:
        """The way to one broker. Raises BrokerUnavailable for a broker that is not in the metadata any more."""
        if self.is_closed:
            raise ClientClosed("the client is closed")
        node = self.metadata.nodes.get(node_id) or self._bootstrap.get(node_id) or self._coordinators.node(node_id)
        link = self._links.get((node_id, channel))
        if node is None:
            raise BrokerUnavailable(f"id {node_id}", "it is not in the cluster's metadata")
        if link is None or link.node[1:3] != node[1:3]:
            if link is not None:
                link.close(BrokerUnavailable(link.node.address, f"broker {node_id} has moved to {node.address}"))
            counters = self._counters.setdefault(node_id, BrokerCounters())
            counters.address = node.address
            link = self._links[node_id, channel] = Link(
                node,
                self.settings,
                self._connector,
                self.in_flight_max,
                self.spawn,
                self.reachability,
                counters,
                # What it led is led by others soon. The addresses given by the user lead nothing.
                self._refresher.request if node_id >= 0 else _nothing,
            )
        return link

    def ready_connection(
        self, node_id: int, on_change: Callable[[], None], channel: int = DEFAULT_CHANNEL
    ) -> BrokerConnection | None:
        """A connection that can take a request now, or None; then `on_change` is called once it may be worth asking."""
        try:
            return self.link(node_id, channel).ready(on_change)
        except BrokerUnavailable:
            self._refresher.request()
            return None

    def feature_level(self, name: str) -> int:
        """The level of a feature of the cluster, as far as brokers that are connected have named it; 0 for none."""
        newest = max((link.features for link in self._links.values()), key=attrgetter("epoch"), default=NO_FEATURES)
        return newest.levels.get(name, 0)

    def by_load(self) -> list[BrokerNode]:
        """Brokers to ask what any of them knows: connected and idle ones first, those in back-off last."""
        known = list(self.metadata.nodes.values())
        random.shuffle(known)
        addresses = {node[1:3] for node in known}
        known += [node for node in self._bootstrap.values() if node[1:3] not in addresses]
        return sorted(known, key=self._load)

    def _load(self, node: BrokerNode) -> tuple[int, int]:
        link = self._links.get((node.node_id, DEFAULT_CHANNEL))
        return (1, 0) if link is None else link.load()

    # Metadata.

    async def refresh(self, timeout_ms: int | None = None) -> None:
        """Ask for metadata now and return when it has come. Raises DeadlinePassed or what kept it from coming."""
        await self._refresher.refresh(timeout_ms)

    def request_refresh(self) -> None:
        """Have metadata asked for soon, and go on."""
        self._refresher.request()

    def on_metadata(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every update of the metadata."""
        self._refresher.listeners.append(listener)

    def on_unreachable(self, listener: Callable[[ClientError], None]) -> None:
        """Call `listener` with what keeps this client from reaching its first broker, each time it gives up."""
        self._refresher.on_unreachable.append(listener)

    # Figures.

    def age_s(self) -> float:
        """How long this client has been there."""
        return self._loop.time() - self._made_at

    def broker_metrics(self) -> dict[int, BrokerMetrics]:
        """The figures of every broker that this client has tried to reach."""
        return {node_id: self._metrics_of(node_id, counters) for node_id, counters in self._counters.items()}

    def _metrics_of(self, node_id: int, counters: BrokerCounters) -> BrokerMetrics:
        links = [link for (each, _), link in self._links.items() if each == node_id]
        in_flight = [count for link in links if (count := link.in_flight) is not None]
        return BrokerMetrics(
            node_id=node_id,
            address=counters.address,
            connections_open=len(in_flight),
            connections_made=counters.made,
            connections_failed=counters.failed,
            connections_lost=counters.lost,
            requests=counters.requests,
            requests_in_flight=sum(in_flight),
            bytes_sent=counters.bytes_sent,
            bytes_received=counters.bytes_received,
            by_api=counters.by_api(),
        )

    def report(self, make: Callable[[], AnyMetrics]) -> None:
        """Call statistics.callback with `make()` every statistics.interval.ms, if both are set."""
        if self.settings.statistics_interval_ms and self.settings.statistics_callback is not None:
            self.spawn(self._report(self.settings.statistics_callback, make))

    async def _report(self, callback: Callable[[AnyMetrics], object], make: Callable[[], AnyMetrics]) -> None:
        while True:
            await asyncio.sleep(self.settings.statistics_interval_ms / 1000)
            try:
                callback(make())
            except Exception:  # noqa: BLE001 - code of the application; logged
                _LOG.exception("statistics.callback=%r failed", callback)

    # Idle connections.

    def _watch_idle(self) -> None:
        idle_ms = self.settings.connections_max_idle_ms
        if idle_ms <= 0 or self.is_closed:
            return
        horizon = self._loop.time() - idle_ms / 1000
        for key, link in list(self._links.items()):
            if link.is_idle_since(horizon):
                link.close(ClientClosed(f"idle for {idle_ms} ms"))
                del self._links[key]
        self._idle_timer = self._loop.call_later(max(idle_ms / 2000, 1.0), self._watch_idle)


def _nothing() -> None:
    return
