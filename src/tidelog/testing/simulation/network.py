"""The network of a simulation: connections that carry bytes in order, late, or not at all.

A connection is two streams, one each way. What is sent arrives after a delay that the seed draws, never out of order
within a stream; between hosts everything may overtake everything else. Directions between two hosts can be cut, one way
or both: bytes then wait, as TCP would send them again, until the cut is healed or the sender gives up. Connections can
be broken at any moment, with whatever is under way in them lost, so that a request may have taken effect although its
reply never comes.

A process that is killed resets its connections; a host that loses power says nothing, and its peers learn it from their
own time-outs, or from the reset that it sends when it is up again.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from tidelog.network.limits import NetworkLimits
from tidelog.testing.simulation.loop import SimulatedLoop
from tidelog.testing.simulation.world import World

_WINDOW_BYTES: Final = 256 << 10
"""What a sender may have under way and unread before its socket is full."""
_RETRY_SECONDS: Final = 0.2
_GIVE_UP_SECONDS: Final = 20.0
_CONNECT_SECONDS_MAX: Final = 30.0
_FIRST_NUMBER: Final = 1 << 20
"""Above every real descriptor, so that the two can never be taken for each other."""


class Latency:
    """How long bytes take: most often little, now and then a lot."""

    def __init__(self, world: World, least: float = 0.0001, most: float = 0.001) -> None:
        self._world = world
        self.least = least
        self.most = most
        self.spike_probability = 0.0
        self.spike_seconds = 0.0

    def draw(self) -> float:
        world = self._world
        seconds = world.between(self.least, self.most)
        if self.spike_probability and world.chance(self.spike_probability):
            seconds += world.between(0, self.spike_seconds)
        return seconds


class End:
    """One end of a connection, held by one process."""

    __slots__ = (
        "_held",
        "_is_closed",
        "_last_arrival",
        "_network",
        "address",
        "breaks_at_next_send",
        "has_ended",
        "host",
        "is_blocked",
        "is_reset",
        "loop",
        "number",
        "on_arrival",
        "peer",
        "received",
        "under_way",
    )

    def __init__(self, network: Network, loop: SimulatedLoop, host: str, number: int) -> None:
        self._network = network
        self.loop = loop
        self.host = host
        self.number = number
        self.peer: End
        self.address = ""
        self.received = bytearray()
        self.under_way = 0
        """Bytes that were sent from here and did not arrive yet."""
        self.has_ended = False
        self.is_reset = False
        self.is_blocked = False
        """Whether not everything could be sent: the peer must read first."""
        self.on_arrival: Callable[[], None] = self._signal
        self.breaks_at_next_send = False
        """The next bytes that are sent from here are lost, and the connection with them."""
        self._is_closed = False
        self._last_arrival = 0.0
        self._held: deque[tuple[bytes, float]] = deque()

    def _signal(self) -> None:
        self.loop.signal(self.number)

    # --- what a socket offers ---

    def is_readable(self) -> bool:
        return bool(self.received) or self.has_ended or self.is_reset

    def is_writable(self) -> bool:
        return self.is_reset or self.room() > 0

    def room(self) -> int:
        return _WINDOW_BYTES - self.under_way - len(self.peer.received)

    def recv_into(self, buffer: bytearray | memoryview) -> int:
        if self.is_reset:
            raise ConnectionResetError("reset by peer")
        if self.received:
            count = min(len(buffer), len(self.received))
            memoryview(buffer)[:count] = self.received[:count]
            del self.received[:count]
            if self.peer.is_blocked:
                self.peer.is_blocked = False
                self.peer.loop.signal(self.peer.number)
            return count
        if self.has_ended:
            return 0
        raise BlockingIOError

    def send(self, data: bytes | memoryview) -> int:
        if self.is_reset or self._is_closed:
            raise ConnectionResetError("reset by peer")
        count = min(self.room(), len(data))
        self.is_blocked = count < len(data)
        if count <= 0:
            raise BlockingIOError
        self._transmit(bytes(data[:count]))
        return count

    def close(self) -> None:
        """End the stream in order: the peer reads what was sent, then the end."""
        if not self._is_closed:
            self._is_closed = True
            self._transmit(b"")
            self._network.forget(self)

    def reset(self) -> None:
        """End both streams at once; the peer learns it as soon as the network lets it."""
        if not self._is_closed:
            self._is_closed = True
            self._network.send_reset(self)
            self._network.forget(self)

    # --- what the network does ---

    def hold(self, seconds: float) -> None:
        """Let what is sent from here arrive no sooner than in so many seconds."""
        self._last_arrival = max(self._last_arrival, self._network.world.now + seconds)

    def arrive_reset(self) -> None:
        if not self.is_reset:
            self.is_reset = True
            self.received.clear()
            if not self.loop.is_dead:
                self.on_arrival()

    def _transmit(self, data: bytes) -> None:
        """Empty data stands for the end of the stream."""
        if self.breaks_at_next_send:
            self._network.break_connection(self)
            return
        self.under_way += len(data)
        if self._network.on_sent is not None and data:
            self._network.on_sent(self, data)
        world = self._network.world
        self._held.append((data, world.now))
        # Bytes of one stream arrive in order: never before what was sent earlier.
        arrival = max(self._last_arrival, world.now + self._network.delay(self.host, self.peer.host))
        self._last_arrival = arrival
        world.at(arrival, self._deliver)

    def _deliver(self) -> None:
        if not self._held or self.is_reset:
            return
        network, peer = self._network, self.peer
        data, sent_at = self._held[0]
        if not network.is_open(self.host, peer.host) or network.is_down(peer.host):
            if network.world.now - sent_at > _GIVE_UP_SECONDS:
                self._held.clear()
                self.arrive_reset()
            else:
                network.world.after(_RETRY_SECONDS, self._deliver)
                self._last_arrival = max(self._last_arrival, network.world.now + _RETRY_SECONDS)
            return
        self._held.popleft()
        self.under_way -= len(data)
        if peer.loop.is_dead or peer._is_closed:
            if data:
                network.send_reset(peer)
            return
        if data:
            peer.received += data
        else:
            peer.has_ended = True
        peer.on_arrival()


class Listener:
    """A port that a process listens on."""

    def __init__(self, network: Network, loop: SimulatedLoop, host: str, port: int, number: int) -> None:
        self._network = network
        self._number = number
        self.loop = loop
        self.host = host
        self.port = port
        self.waiting: deque[End] = deque()

    def fileno(self) -> int:
        return self._number

    def is_readable(self) -> bool:
        return bool(self.waiting)

    def is_writable(self) -> bool:
        return False

    def accept(self, limits: NetworkLimits) -> tuple[ServerTransport, str]:
        """The oldest connection that waits, and its peer's host; raises BlockingIOError if there is none."""
        del limits
        if not self.waiting:
            raise BlockingIOError
        end = self.waiting.popleft()
        self.loop.add_pollable(end.number, end)
        return ServerTransport(end), end.peer.host

    def close(self) -> None:
        self._network.close_listener(self)


class ServerTransport:
    """A connection as a broker's `Connection` uses it: `tidelog.network.transport.Transport`."""

    holds_bytes: Final = False
    is_plain: Final = False

    def __init__(self, end: End) -> None:
        self._end = end
        self.recv_into: Callable[[bytearray | memoryview], int] = end.recv_into
        self.send: Callable[[bytes | memoryview], int] = end.send
        self.sendmsg: Callable[[Iterable[bytes | memoryview], tuple[()], int], int] = self._sendmsg

    def _sendmsg(self, buffers: Iterable[bytes | memoryview], _ancillary: tuple[()] = (), _flags: int = 0) -> int:
        return self._end.send(b"".join(buffers))

    def sendfile(self, fd: int, position: int, count: int) -> int:
        if self._end.room() <= 0 and not self._end.is_reset:
            self._end.is_blocked = True
            raise BlockingIOError
        return self._end.send(os.pread(fd, min(count, max(self._end.room(), 1)), position))

    def fileno(self) -> int:
        return self._end.number

    def cork(self, is_corked: bool) -> None:
        """Packets play no part here."""

    def close(self) -> None:
        self._end.loop.remove_pollable(self._end.number)
        self._end.close()


class ClientTransport(asyncio.Transport):
    """A connection as asyncio's protocols use it."""

    def __init__(self, end: End, protocol: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._end = end
        self._protocol = protocol
        self._unsent = bytearray()
        self._is_closing = False
        self._is_lost = False
        self._is_reading = True
        end.on_arrival = self._schedule
        self._is_scheduled = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing and not self._end.is_reset:
            self._unsent += data
            self._send()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def _send(self) -> None:
        while self._unsent:
            try:
                count = self._end.send(bytes(self._unsent))
            except BlockingIOError:
                self._end.loop.call_later(0.001, self._send)
                return
            except ConnectionResetError:
                self._unsent.clear()
                self._schedule()
                return
            del self._unsent[:count]
        if self._is_closing:
            self._end.close()
            self._lose(None)

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_lost:
            self._is_scheduled = True
            self._end.loop.call_soon(self._on_arrival)

    def _on_arrival(self) -> None:
        self._is_scheduled = False
        end, protocol = self._end, self._protocol
        while end.received and self._is_reading and not self._is_closing and not end.is_reset:
            if isinstance(protocol, asyncio.BufferedProtocol):
                room = protocol.get_buffer(-1)
                count = end.recv_into(room)  # type: ignore[arg-type]
                protocol.buffer_updated(count)
            else:
                assert isinstance(protocol, asyncio.Protocol), "a protocol of streams"
                data = bytes(end.received)
                end.received.clear()
                protocol.data_received(data)
        if end.is_reset:
            self._lose(ConnectionResetError("reset by peer"))
        elif end.has_ended and not end.received and not self._is_closing:
            self._is_closing = True
            end.close()
            self._lose(None)

    def _lose(self, cause: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            self._end.loop.call_soon(self._protocol.connection_lost, cause)

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._send()
            if not self._unsent:
                self._end.close()
                self._lose(None)

    def abort(self) -> None:
        self._unsent.clear()
        self._is_closing = True
        self._end.reset()
        self._lose(None)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        del name
        return default

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """What is not sent yet is held without a limit."""

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._schedule()


class Network:
    """All hosts, listeners and connections of a simulation."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.latency = Latency(world)
        self.on_sent: Callable[[End, bytes], None] | None = None
        """Sees what is sent from an end of a connection."""
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._ends: dict[int, End] = {}
        self._hosts: dict[SimulatedLoop, str] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._down: set[str] = set()
        self._slow: dict[tuple[str, str], float] = {}
        self._next_number = _FIRST_NUMBER

    # --- hosts ---

    def place(self, loop: SimulatedLoop, host: str) -> None:
        """The process of `loop` runs on `host`."""
        self._hosts[loop] = host

    def process_ends(self, loop: SimulatedLoop) -> None:
        """A process was killed: its system resets whatever it had open."""
        for listener in [each for each in self._listeners.values() if each.loop is loop]:
            self.close_listener(listener)
        for end in [each for each in self._ends.values() if each.loop is loop]:
            end.reset()

    def power_off(self, host: str) -> None:
        """A host is gone, without a reset to its peers."""
        self._down.add(host)
        for key in [key for key, listener in self._listeners.items() if listener.host == host]:
            del self._listeners[key]

    def power_on(self, host: str) -> None:
        self._down.discard(host)
        for end in [each for each in self._ends.values() if each.host == host and each.loop.is_dead]:
            end.reset()

    def is_down(self, host: str) -> bool:
        return host in self._down

    # --- cuts ---

    def cut(self, source: str, target: str) -> None:
        """Let nothing through from `source` to `target`."""
        self._cuts.add((source, target))

    def heal(self, source: str, target: str) -> None:
        self._cuts.discard((source, target))

    def heal_all(self) -> None:
        self._cuts.clear()
        self._slow.clear()
        self.latency.spike_probability = 0.0
        for end in self._ends.values():
            end.breaks_at_next_send = False

    def slow_down(self, source: str, target: str, seconds: float) -> None:
        """Let everything from `source` to `target` take so much longer; 0 ends that."""
        if seconds:
            self._slow[source, target] = seconds
        else:
            self._slow.pop((source, target), None)

    def hold_replies(self, source: str, target: str, seconds: float) -> None:
        """Let what `source` answers on the connections that `target` has opened come so much later, other bytes not."""
        for end in self._ends.values():
            if end.host == source and end.peer.host == target and end.number > end.peer.number:
                end.hold(seconds)

    def delay(self, source: str, target: str) -> float:
        """How long the next bytes take."""
        seconds = self.latency.draw()
        return seconds + self._slow.get((source, target), 0.0) if self._slow else seconds

    def is_open(self, source: str, target: str) -> bool:
        return (source, target) not in self._cuts

    def cuts(self) -> list[tuple[str, str]]:
        return sorted(self._cuts)

    # --- connections ---

    def listen(self, loop: SimulatedLoop, port: int) -> Listener:
        host = self._hosts[loop]
        if (host, port) in self._listeners:
            raise OSError(98, f"{host}:{port} is in use")
        listener = Listener(self, loop, host, port, self._new_number())
        self._listeners[host, port] = listener
        loop.add_pollable(listener.fileno(), listener)
        return listener

    def close_listener(self, listener: Listener) -> None:
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]
        listener.loop.remove_pollable(listener.fileno())
        for end in listener.waiting:
            end.reset()

    async def open_connection(
        self, loop: SimulatedLoop, protocol: asyncio.BaseProtocol, host: str, port: int
    ) -> asyncio.Transport:
        """What `loop.create_connection` does."""
        here = self._hosts[loop]
        opened: asyncio.Future[End] = loop.create_future()
        started = self.world.now
        self.world.after(self.latency.draw(), lambda: self._knock(loop, here, host, port, opened, started))
        end = await opened
        transport = ClientTransport(end, protocol)
        protocol.connection_made(transport)
        return transport

    def _knock(
        self, loop: SimulatedLoop, here: str, host: str, port: int, opened: asyncio.Future[End], started: float
    ) -> None:
        if opened.done() or loop.is_dead:
            return
        if self.is_down(host) or not self.is_open(here, host) or not self.is_open(host, here):
            if self.world.now - started > _CONNECT_SECONDS_MAX:
                opened.set_exception(TimeoutError(f"{host}:{port} did not answer"))
            else:
                self.world.after(_RETRY_SECONDS, lambda: self._knock(loop, here, host, port, opened, started))
            return
        listener = self._listeners.get((host, port))
        if listener is None:
            opened.set_exception(ConnectionRefusedError(111, f"{host}:{port} refused"))
            return
        ours, theirs = End(self, loop, here, self._new_number()), End(self, listener.loop, host, self._new_number())
        ours.peer, theirs.peer = theirs, ours
        self._ends[ours.number] = ours
        self._ends[theirs.number] = theirs
        listener.waiting.append(theirs)
        listener.loop.signal(listener.fileno())
        opened.set_result(ours)

    def send_reset(self, end: End) -> None:
        """Notify the peer of `end` of the broken connection, when the network lets it."""
        peer = end.peer

        def arrive() -> None:
            if not self.is_open(end.host, peer.host) or self.is_down(end.host):
                if not peer.is_reset:
                    self.world.after(_RETRY_SECONDS, arrive)
                return
            peer.arrive_reset()

        self.world.after(self.latency.draw(), arrive)

    def forget(self, end: End) -> None:
        self._ends.pop(end.number, None)

    def connections(self) -> list[End]:
        """One end of each connection between living processes, in the order of their making."""
        return [end for number, end in sorted(self._ends.items()) if number < end.peer.number]

    def break_connection(self, end: End) -> None:
        """Reset both ends; what is under way is lost."""
        for each in (end, end.peer):
            each.arrive_reset()
            self.forget(each)

    def _new_number(self) -> int:
        self._next_number += 1
        return self._next_number
