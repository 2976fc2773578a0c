"""From a frame to its handler and back, with handlers of the test's own and a connection that only keeps replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.broker.coordinators.replies import Reply
from tidelog.broker.handlers import handlers, own_handlers
from tidelog.broker.requests.hooks import RequestHooks
from tidelog.broker.requests.routes import Route
from tidelog.broker.runtime.slices import TimeSlices
from tidelog.broker.serving.context import Context
from tidelog.broker.serving.dispatcher import Dispatcher
from tidelog.network.connection import Connection
from tidelog.network.session import Session
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.frames import encode_request, response_body_offset
from tidelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.wire.own_messages import CompactTopicsRequest
from tidelog.wire.schema import Message

VERSION = 4


class FakeConnection:
    """As much of a connection as the dispatcher uses."""

    address = "here"

    def __init__(self) -> None:
        self.slots: list[FakeSlot] = []
        self.is_closed = False
        self.is_muted = False
        self.throttle_ms = 0
        self.session = Session("PLAINTEXT", "PLAINTEXT", "here")

    def close(self) -> None:
        self.is_closed = True

    def mute(self) -> None:
        self.is_muted = True

    def unmute(self) -> None:
        self.is_muted = False

    def hold(self, size: int) -> None:
        pass


class FakeSlot:
    def __init__(self, connection: FakeConnection) -> None:
        self.connection = connection
        self.reply: bytes | None = None
        self.failure: Exception | None = None
        self.is_parked = False

    def fill(self, reply: bytes) -> None:
        self.reply = reply

    def fail(self, api: str, cause: Exception) -> None:
        self.failure = cause
        self.connection.close()

    def close_connection(self) -> None:
        self.connection.close()

    def park(self) -> None:
        self.is_parked = True


class World:
    """A dispatcher whose ListGroups is `handle`."""

    def __init__(self, handle: Callable[[Any, Context], Any], hooks: RequestHooks | None = None) -> None:
        self.written = 0
        node: Any = SimpleNamespace(
            slices=TimeSlices(asyncio.get_running_loop()),
            replica_manager=SimpleNamespace(write_staged=self._write, traffic=None),
            access=None,
        )
        self.slices: TimeSlices = node.slices
        self.routes = {**handlers(), **own_handlers()}
        for route in self.routes.values():
            route.load()
        self.route(ListGroupsRequest).handle = handle
        self.dispatcher = Dispatcher(self.routes, hooks)
        self.dispatcher.attach(node)
        self.connection = FakeConnection()

    def _write(self) -> None:
        self.written += 1

    def route(self, request_class: Any) -> Route:
        return self.routes[int(request_class.api_key)]

    def send(self, request: Any, version: int = VERSION) -> FakeSlot:
        frame = bytearray(encode_request(type(request).api_key, version, 7, "client", request.encode(version)))
        slot = FakeSlot(self.connection)
        self.connection.slots.append(slot)
        self.dispatcher.dispatch(self.connection, slot, frame, 4, len(frame))  # type: ignore[arg-type]
        return slot

    def answer(self, slot: FakeSlot) -> ListGroupsResponse:
        assert slot.reply is not None, slot.failure
        frame = slot.reply[4:]
        return ListGroupsResponse.decode(
            frame, VERSION, response_body_offset(ListGroupsRequest.api_key, VERSION, frame)
        )


def in_loop(body: Callable[[], Any]) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            await body()

    asyncio.run(main())


def test_every_route_has_the_messages_of_its_api_and_serves_versions_they_have() -> None:
    for route in {**handlers(), **own_handlers()}.values():
        route.load()
        if route.handle_bytes is None:
            for message in (route.request_class, route.response_class):
                assert message.api_key == route.api_key
                assert message.versions[0] <= route.min_version <= route.max_version <= message.versions[1]


def test_an_error_of_an_api_of_our_own_closes_the_connection_in_order(caplog: pytest.LogCaptureFixture) -> None:
    """Its response has no field for an error of the whole request."""

    async def body() -> None:
        def refuse(_request: Any, _context: Context) -> Message:
            raise ApiError(ErrorCode.INVALID_REQUEST, "not so")

        world = World(refuse)
        world.route(CompactTopicsRequest).handle = refuse
        slot = world.send(CompactTopicsRequest(), 0)
        assert slot.failure is None
        assert world.connection.is_closed
        assert "has no field for an error: INVALID_REQUEST: not so" in caplog.text

    in_loop(body)


@pytest.mark.parametrize("waits", [False, True])
def test_an_error_of_long_work_is_the_error_of_its_reply(waits: bool) -> None:
    async def body() -> None:
        async def refuse(_request: Any, _context: Context) -> ListGroupsResponse:
            if waits:
                await asyncio.sleep(0)
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

        world = World(refuse)
        slot = world.send(ListGroupsRequest())
        assert world.connection.is_muted is waits
        assert slot.is_parked is waits
        await world.slices.drain()
        assert world.answer(slot).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not world.connection.is_muted

    in_loop(body)


def test_long_work_may_end_with_a_reply_that_comes_later() -> None:
    """It has taken effect by then, so the connection is not muted any more."""

    async def body() -> None:
        reply = Reply(lambda code: ListGroupsResponse(error_code=code))

        async def wait(_request: Any, _context: Context) -> Any:
            await asyncio.sleep(0)
            return reply

        world = World(wait)
        slot = world.send(ListGroupsRequest())
        await world.slices.drain()
        assert slot.reply is None
        assert not world.connection.is_muted
        reply(ErrorCode.NOT_COORDINATOR)
        assert world.answer(slot).error_code == ErrorCode.NOT_COORDINATOR

    in_loop(body)


def test_a_reply_whose_effect_is_pending_mutes_until_it_is_there() -> None:
    async def body() -> None:
        reply = Reply(lambda code: ListGroupsResponse(error_code=code))
        reply.has_effect_pending = True
        world = World(lambda _request, _context: reply)
        world.send(ListGroupsRequest())
        assert world.connection.is_muted
        reply(ErrorCode.NONE)
        assert not world.connection.is_muted

    in_loop(body)


def test_a_reply_to_an_earlier_request_does_not_end_the_muting_of_a_later_one() -> None:
    async def body() -> None:
        reply = Reply(lambda code: ListGroupsResponse(error_code=code))
        gate = asyncio.Event()
        responses: list[Any] = [reply, wait_for(gate)]
        world = World(lambda _request, _context: responses.pop(0))
        world.send(ListGroupsRequest())
        world.send(ListGroupsRequest())
        reply(ErrorCode.NONE)
        assert world.connection.is_muted
        gate.set()
        await world.slices.drain()
        assert not world.connection.is_muted

    in_loop(body)


async def wait_for(gate: asyncio.Event) -> ListGroupsResponse:
    await gate.wait()
    return ListGroupsResponse()


def test_the_rest_of_the_work_is_left_out_when_the_client_has_gone() -> None:
    async def body() -> None:
        steps = 0

        async def count(_request: Any, context: Context) -> ListGroupsResponse:
            nonlocal steps
            await asyncio.sleep(0)
            for _ in range(10):
                steps += 1
                await context.pause()
            return ListGroupsResponse()

        world = World(count)
        slot = world.send(ListGroupsRequest())
        world.connection.close()
        await world.slices.drain()
        assert steps == 1
        assert slot.failure is slot.reply is None

    in_loop(body)


def test_a_large_request_is_read_whole_and_handled_like_a_small_one() -> None:
    async def body() -> None:
        seen: list[int] = []

        def count(request: ListGroupsRequest, _context: Context) -> ListGroupsResponse:
            seen.append(len(request.states_filter))
            return ListGroupsResponse(error_code=ErrorCode.NOT_COORDINATOR)

        world = World(count)
        world.route(ListGroupsRequest).elements_max = 50_000
        slots = [world.send(ListGroupsRequest(states_filter=["state"] * number)) for number in (1, 50_000)]
        await world.slices.drain()
        assert seen == [1, 50_000]
        for slot in slots:
            assert world.answer(slot).error_code == ErrorCode.NOT_COORDINATOR

    in_loop(body)


def test_a_large_request_that_cannot_be_read_costs_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        world = World(lambda _request, _context: ListGroupsResponse())
        world.route(ListGroupsRequest).elements_max = 40_000
        slot = world.send(ListGroupsRequest(states_filter=["state"] * 50_000))
        await world.slices.drain()
        assert world.connection.is_closed
        assert slot.failure is None, "it is no mistake of ours"
        assert "cannot be read" in caplog.text

    in_loop(body)


def test_staged_records_are_written_for_the_next_request_of_the_same_connection() -> None:
    async def body() -> None:
        world = World(lambda _request, _context: ListGroupsResponse())
        world.send(ListGroupsRequest())
        assert world.written == 0, "alone on its connection"
        world.send(ListGroupsRequest())
        assert world.written == 1

    in_loop(body)


def test_hooks_see_every_request_in_their_order_the_fast_paths_included() -> None:
    async def body() -> None:
        seen: list[tuple[str, int]] = []

        def time(_slot: object, route: Route, version: int) -> None:
            assert version == route.max_version
            seen.append(("timed", route.api_key))

        def throttle(connection: Connection, api_key: int, request_bytes: int) -> None:
            assert request_bytes > 0
            assert connection.session.client_id == "client"
            seen.append((connection.session.principal, api_key))

        countdowns: dict[int, list[int]] = {}
        hooks = RequestHooks(countdowns, time, throttle)
        world = World(lambda _request, _context: ListGroupsResponse(), hooks)
        for route in world.routes.values():
            countdowns[route.api_key] = [1] * (route.max_version + 1)
            seen.clear()
            frame = bytearray(encode_request(route.api_key, route.max_version, 7, "client", b""))
            slot = FakeSlot(world.connection)
            world.dispatcher.dispatch(world.connection, slot, frame, 4, len(frame))  # type: ignore[arg-type]
            assert seen == [(each, route.api_key) for each in ("timed", "User:ANONYMOUS")]
            seen.clear()
            countdowns[route.api_key][-1] = 9
            slot = FakeSlot(world.connection)
            world.dispatcher.dispatch(world.connection, slot, frame, 4, len(frame))  # type: ignore[arg-type]
            assert seen == [("User:ANONYMOUS", route.api_key)]
            assert countdowns[route.api_key][-1] == 8

    in_loop(body)


def test_the_session_knows_the_client_id_of_its_requests() -> None:
    async def body() -> None:
        world = World(lambda _request, _context: ListGroupsResponse())
        assert world.connection.session.client_id is None
        world.send(ListGroupsRequest())
        assert world.connection.session.client_id == "client"
        assert world.connection.session.is_authenticated

    in_loop(body)
