"""Quotas of this broker's clients: what each connection has used, and how long it has to wait.

The response to a client that exceeded its quota has the throttle time, and its connection is not read
from for so long, as in Kafka. Bytes of Produce are counted when the request comes, those of Fetch when its response is
made; a Fetch that would exceed the quota is answered without records. Request time is the time that the event loop
spends on a client's requests, in all their slices; a broker has 100 % of it in all. Requests of other brokers are not
counted. A client that was idle may spend ten seconds' worth at once (all windows of `quota.window.num` but one); over
time the rate is exactly what is set.

Nothing is counted, and nothing is called, while no quota is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from tidelog.broker.configuration.settings import quota_burst_ms
from tidelog.metadata.client_quotas import QuotaNode, read_quota_nodes
from tidelog.metadata.configs import read_overrides
from tidelog.quotas import (
    DEFAULT,
    ClientQuotas,
    QuotaEntity,
    QuotaType,
    limits_in,
    number_in,
)
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.requests.hooks import Throttle
    from tidelog.broker.runtime.slices import TimeSlices
    from tidelog.config import BrokerConfig
    from tidelog.metadata.store import Store
    from tidelog.metadata.store_queue import StoreQueue
    from tidelog.network.connection import Connection
    from tidelog.network.session import Session
    from tidelog.network.socket_server import SocketServer
    from tidelog.timing import Clock, Scheduler

CONNECTION_RATE: Final = "connection_creation_rate"
"""The quota of an address: connections a second."""

_EXEMPT: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
)
"""Requests of brokers, and those that come before a client is known: their time is not counted."""


class ClientQuotaManager:
    """All quotas of clients, as the tree has them."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: StoreQueue,
        clock: Clock,
        scheduler: Scheduler,
        slices: TimeSlices,
        network: SocketServer,
        charge: Callable[[Throttle | None], None],
    ) -> None:
        """`charge` has every request charged by a function, or by none."""
        self._metadata = metadata
        self._clock = clock
        self._scheduler = scheduler
        self._slices = slices
        self._network = network
        self._charge = charge
        burst_ms = quota_burst_ms(config)
        self._produce = ClientQuotas(burst_ms)
        self._fetch = ClientQuotas(burst_ms)
        # A process that the machine stops for seconds must not charge them to a client for minutes.
        self._request = ClientQuotas(burst_ms, is_debt_bounded=True)
        self._request_wait_max_ms = config.quota_window_size_seconds * 1000
        self._mutations = ClientQuotas(
            config.controller_quota_window_num * config.controller_quota_window_size_seconds * 1000
        )
        self._by_type = {
            QuotaType.PRODUCE: self._produce,
            QuotaType.FETCH: self._fetch,
            QuotaType.REQUEST: self._request,
            QuotaType.CONTROLLER_MUTATION: self._mutations,
        }
        self._timed: tuple[Connection, float] | None = None
        """Whose request the event loop is busy with, and since when."""
        self.limits_fetch = False
        self.throttles = 0
        """How often a reply named a wait."""
        self.throttled_ms = 0
        """How long all of them together."""

    # --- settings ---

    def start(self, store: Store) -> None:
        """Read all quotas."""
        for node, settings in read_quota_nodes(store):
            self._set(node, settings)
        self._hook()

    async def follow(self, entity_path: str) -> None:
        """The settings of an entity, such as `users/U`, have changed."""
        node = QuotaNode.at(entity_path)
        if node is not None:
            self._set(node, await self._metadata.run(read_overrides, node.entity))
            self._hook()

    def _set(self, node: QuotaNode, settings: dict[str, str]) -> None:
        if node.ip is not None:
            address = None if node.ip == DEFAULT else node.ip
            rate = number_in(settings, CONNECTION_RATE)
            self._network.quotas.set_address_rate(address, None if rate is None else int(rate))
            return
        limits = limits_in(settings)
        for kind, quotas in self._by_type.items():
            quotas.set_limit(QuotaEntity(node.user, node.client_id), limits.get(kind))

    def _hook(self) -> None:
        is_needed = any(quotas.is_limited for quotas in self._by_type.values())
        self._charge(self._on_request if is_needed else None)
        self.limits_fetch = self._fetch.is_limited
        self._slices.meter = self if self._request.is_limited else None

    # --- requests ---

    def _on_request(self, connection: Connection, api_key: int, request_bytes: int) -> None:
        if self._request.is_limited:
            self.switch(None if api_key in _EXEMPT else connection)
            wait_ms = self._request.wait_ms(*_names(connection.session), self._clock.monotonic_ms())
            self.throttle(connection, min(wait_ms, self._request_wait_max_ms))
        if api_key == ApiKey.PRODUCE and self._produce.is_limited:
            user, client_id = _names(connection.session)
            self.throttle(connection, self._produce.record(user, client_id, request_bytes, self._clock.monotonic_ms()))

    def current(self) -> Connection | None:
        """Whose request the event loop is busy with."""
        return None if self._timed is None else self._timed[0]

    def switch(self, owner: Connection | None) -> None:
        """What follows is done for another client: count the time so far to the one before."""
        now = self._slices.seconds()
        if self._timed is not None:
            self.count_time(self._timed[0], now - self._timed[1])
        self._timed = None if owner is None else (owner, now)

    @property
    def is_timing(self) -> bool:
        """Whether the time of a request is being measured."""
        return self._timed is not None

    def end_turn(self) -> None:
        """The event loop is done with the requests of this turn."""
        self.switch(None)

    def count_time(self, connection: Connection, seconds: float) -> None:
        """Count time to a client. It has to wait when its next request comes, so that the response can say so."""
        self._request.record(*_names(connection.session), seconds * 100, self._clock.monotonic_ms())

    def count_fetched(self, connection: Connection, response_bytes: int) -> int:
        """Count a response to a Fetch. If its client has to wait, the response is not to be sent: for how long."""
        user, client_id = _names(connection.session)
        now_ms = self._clock.monotonic_ms()
        wait_ms = self._fetch.try_record(user, client_id, response_bytes, now_ms)
        if wait_ms:
            self.throttle(connection, wait_ms)
        return wait_ms

    def count_sent(self, connection: Connection, response_bytes: int) -> int:
        """The same for a response that is sent all the same, because its records are locked for the client."""
        user, client_id = _names(connection.session)
        wait_ms = self._fetch.record(user, client_id, response_bytes, self._clock.monotonic_ms())
        self.throttle(connection, wait_ms)
        return wait_ms

    def fetch_bytes_max(self, connection: Connection, bytes_max: int) -> int:
        """How many bytes of records a response may have: no more than the quota lets through at once, as in Kafka."""
        bucket = self._fetch.bucket_of(*_names(connection.session), self._clock.monotonic_ms())
        return bytes_max if bucket is None else min(bytes_max, int(bucket.burst))

    def throttle(self, connection: Connection, wait_ms: int) -> None:
        """Read nothing from a connection for so long."""
        until_ms = self._clock.monotonic_ms() + wait_ms
        if wait_ms <= 0 or connection.is_closed or until_ms <= connection.throttled_until_ms:
            return
        self.throttles += 1
        self.throttled_ms += wait_ms
        is_first = not connection.throttle_ms
        connection.throttle(wait_ms, until_ms)
        if is_first:
            self._scheduler.schedule("throttled client", lambda: self._release(connection), wait_ms)
            self._network.wake()  # the end of the turn sets the timer

    def _release(self, connection: Connection) -> None:
        """Read from a connection again, unless it has been given a longer wait."""
        left_ms = connection.throttled_until_ms - self._clock.monotonic_ms()
        if left_ms > 0 and not connection.is_closed:
            self._scheduler.schedule("throttled client", lambda: self._release(connection), left_ms)
        else:
            connection.end_throttle()

    # --- changes of topics ---

    def mutation_quota(self, connection: Connection, *, is_strict: bool) -> MutationQuota:
        """The quota that the changes of one request are taken from; `is_strict` if its client knows the error."""
        return MutationQuota(self, self._mutations, connection, is_strict=is_strict)

    @property
    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def measured(self) -> Iterator[tuple[QuotaType, QuotaEntity, float]]:
        """All that was counted since the start: bytes, percent of a second, partitions."""
        for kind, quotas in self._by_type.items():
            for entity, value in quotas.measured():
                yield kind, entity, value


class MutationQuota:
    """What one request may create and delete."""

    __slots__ = ("_bucket", "_connection", "_is_strict", "_manager")

    def __init__(
        self, manager: ClientQuotaManager, quotas: ClientQuotas, connection: Connection, *, is_strict: bool
    ) -> None:
        self._manager = manager
        self._connection = connection
        self._is_strict = is_strict
        self._bucket = None
        if quotas.is_limited:
            self._bucket = quotas.bucket_of(*_names(connection.session), manager.now_ms)

    def take(self, partition_count: int) -> None:
        """Count partitions that are created or deleted. Raises ApiError if the quota is used up."""
        if self._bucket is None:
            return
        now_ms = self._manager.now_ms
        if self._is_strict and self._bucket.is_empty(now_ms):
            wait_ms = self._bucket.throttle_ms(now_ms)
            text = f"controller_mutation_rate is used up; try again in {wait_ms} ms"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, text)
        self._bucket.take(partition_count, now_ms)

    def throttle(self) -> None:
        """Let the client wait if it has taken more than there was."""
        if self._bucket is not None:
            self._manager.throttle(self._connection, self._bucket.throttle_ms(self._manager.now_ms))


def _names(session: Session) -> tuple[str, str]:
    """User and client id. A user is known by the name alone."""
    return session.principal.partition(":")[2], session.client_id or ""
