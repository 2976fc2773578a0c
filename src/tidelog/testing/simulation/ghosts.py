"""Requests that were delayed on their way: they reach a broker when their sender was replaced long ago.

The requests between all hosts and the brokers are recorded. Now and then those that are out of date by `staleness` are
sent again, by a host of their own, to the broker that they were for. It has to refuse each of them.

Batches of idempotent producers are sent again, too, while they are among the last five of their producer in the log:
the broker has to answer with the offset that they have.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from typing import Any, Final, NamedTuple

from tidelog.testing.simulation.network import End
from tidelog.testing.simulation.processes import BROKER_PORT, BrokerProcess, Process
from tidelog.testing.simulation.simulation import Simulation
from tidelog.testing.simulation.staleness import RULES, forgotten_batch, is_accepted, offset_of_repeated
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.frames import parse_request_header, response_body_offset

_KEPT: Final = 60
"""Of each API."""
_LENGTH_BYTES: Final = 4
_INTERVAL_SECONDS: Final = 0.1
_AT_ONCE: Final = 3
_REPEATED_SHARE: Final = 0.4
_PATIENCE_SECONDS: Final = 2.0


class _Recorded(NamedTuple):
    host: str
    frame: bytes
    version: int
    request: Any


class Ghosts:
    """Records requests, and sends those that are stale."""

    def __init__(self, cluster: Simulation) -> None:
        self.sent: Counter[str] = Counter()
        self._cluster = cluster
        self._random = random.Random(f"ghosts {cluster.seed}")
        self._brokers = {broker.name: broker for broker in cluster.brokers}
        self._process: Process | None = None
        self._partial: dict[End, bytearray] = {}
        self._recorded: dict[int, deque[_Recorded]] = {api_key: deque(maxlen=_KEPT) for api_key in RULES}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Record from now on, and send what is stale until there is peace."""
        self._process = self._cluster.client()
        self._cluster.network.on_sent = self._record
        self._cluster.world.after(_INTERVAL_SECONDS, self._haunt)

    # --- recording ---

    def _record(self, end: End, data: bytes) -> None:
        if end.peer.host not in self._brokers or end.number > end.peer.number:
            return  # an answer
        partial = self._partial.setdefault(end, bytearray())
        partial += data
        while len(partial) >= _LENGTH_BYTES:
            stop = _LENGTH_BYTES + int.from_bytes(partial[:_LENGTH_BYTES])
            if len(partial) < stop:
                return
            self._keep(end.peer.host, bytes(partial[:stop]))
            del partial[:stop]

    def _keep(self, host: str, frame: bytes) -> None:
        api_key = int.from_bytes(frame[_LENGTH_BYTES : _LENGTH_BYTES + 2])
        rule = RULES.get(api_key)
        if rule is not None:
            body = frame[_LENGTH_BYTES:]
            header = parse_request_header(body)
            request = rule[0].decode(body, header.api_version, header.body_offset)
            self._recorded[api_key].append(_Recorded(host, frame, header.api_version, request))

    # --- sending ---

    def _haunt(self) -> None:
        if self._cluster.is_at_peace:
            self._cluster.network.on_sent = None
            return
        stale = [
            (api_key, each)
            for api_key, recorded in self._recorded.items()
            for each in recorded
            if self._is_stale(api_key, each)
        ]
        for api_key, each in self._random.sample(stale, min(len(stale), _AT_ONCE)):
            self._recorded[api_key].remove(each)
            assert self._process is not None, "ghosts were started"
            self._tasks.append(self._process.run(self._send(api_key, each)))
        self._repeat_a_batch()
        self._cluster.world.after(_INTERVAL_SECONDS, self._haunt)

    def _repeat_a_batch(self) -> None:
        recorded = self._recorded[ApiKey.PRODUCE]
        if not recorded or self._random.random() >= _REPEATED_SHARE:
            return
        each = self._random.choice(recorded)
        broker = self._brokers[each.host]
        if broker.is_serving and not broker.is_paused and offset_of_repeated(broker, each.request) is not None:
            assert self._process is not None, "ghosts were started"
            self._tasks.append(self._process.run(self._send_again(broker, each)))

    def _is_stale(self, api_key: int, recorded: _Recorded) -> bool:
        broker: BrokerProcess = self._brokers[recorded.host]
        return broker.is_serving and not broker.is_paused and RULES[api_key][2](self._cluster, broker, recorded.request)

    async def _send(self, api_key: int, recorded: _Recorded) -> None:
        name = ApiKey(api_key).name
        response = await self._ask(api_key, recorded)
        if response is None:
            return
        self.sent[f"requests refused that came too late: {name}"] += 1
        if is_accepted(response) and self._is_stale(api_key, recorded):
            self._cluster.invariants.violated(
                f"stale request: {recorded.host} answers {str(response)[:300]} to a late {name}"
            )

    async def _send_again(self, broker: BrokerProcess, recorded: _Recorded) -> None:
        before = offset_of_repeated(broker, recorded.request)
        response = await self._ask(ApiKey.PRODUCE, recorded)
        # The producer may have gone on, and the broker have been replaced, in the meantime.
        if response is None or before is None or offset_of_repeated(broker, recorded.request) != before:
            return
        self.sent["batches that came again"] += 1
        fault = forgotten_batch(response, before)
        if fault is not None:
            self._cluster.invariants.violated(f"forgotten batch: {recorded.host} {fault}")

    async def _ask(self, api_key: int, recorded: _Recorded) -> Any:
        """The response; None if there is none in time."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                loop = asyncio.get_running_loop()
                transport, wire = await loop.create_connection(_Wire, recorded.host, BROKER_PORT)
                transport.write(recorded.frame)
                answer = await wire.answer
                transport.close()
        except (OSError, TimeoutError):
            return None
        offset = response_body_offset(api_key, recorded.version, answer)
        return RULES[api_key][1].decode(answer, recorded.version, offset)


class _Wire(asyncio.Protocol):
    """A connection for one request."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) >= _LENGTH_BYTES:
            stop = _LENGTH_BYTES + int.from_bytes(self._received[:_LENGTH_BYTES])
            if len(self._received) >= stop and not self.answer.done():
                self.answer.set_result(bytes(self._received[_LENGTH_BYTES:stop]))

    def connection_lost(self, error: Exception | None) -> None:
        del error
        if not self.answer.done():
            self.answer.set_exception(ConnectionResetError("the broker hung up"))
