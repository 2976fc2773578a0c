"""Connections, back-off, metadata and coordinators against brokers that a test scripts, on the loopback."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from tests.integration.client.fake_broker import CLOSE, FakeBroker
from tidelog.client.aio.coordinators import CoordinatorType
from tidelog.client.aio.network import COORDINATOR_CHANNEL, NetworkClient
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.settings import load_settings
from tidelog.client.errors import (
    ApiError,
    BrokerUnavailable,
    ClientClosed,
    ConnectionLost,
    DeadlinePassed,
    InvalidReply,
    UnsupportedByBroker,
)
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.metadata import MetadataResponse

QUICK = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 20, "retry.backoff.ms": 5, "retry.backoff.max.ms": 20}
ASK = InitProducerIdRequest()


def client_of(
    *brokers: FakeBroker, in_flight_max: int = 100, topics: tuple[str, ...] = (), **settings: Any
) -> NetworkClient:
    words = {name.replace(".", "_"): value for name, value in QUICK.items()}
    servers = [broker.address for broker in brokers]
    loaded = load_settings(ProducerSettings, {"bootstrap.servers": servers}, words | settings)
    return NetworkClient(loaded, in_flight_max=in_flight_max, topics_wanted=lambda: topics)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await work
        leftover = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in leftover if "_serve" not in repr(task)], "the client left tasks behind"

    asyncio.run(limited())


def with_client(test: Callable[[FakeBroker, NetworkClient], Awaitable[None]], **settings: Any) -> None:
    """Run `test` with one broker and a client that knows it."""

    async def work() -> None:
        async with FakeBroker() as broker:
            client = client_of(broker, **settings)
            await client.start()
            try:
                await test(broker, client)
            finally:
                await client.close()

    run(work())


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.005)


def test_start_learns_the_cluster_from_any_bootstrap_server() -> None:
    async def work() -> None:
        async with FakeBroker(node_id=7) as broker, FakeBroker() as dead:
            broker.topics["topic"] = 2
            await dead.stop()
            client = client_of(dead, broker, topics=("topic",))
            await client.start()
            assert client.metadata.partition_count("topic") == 2
            assert client.metadata.controller is not None
            assert client.metadata.controller.node_id == 7
            await client.close()

    run(work())


def test_start_names_the_addresses_when_none_answers() -> None:
    async def work() -> None:
        async with FakeBroker() as one, FakeBroker() as two:
            await one.stop()
            await two.stop()
            client = client_of(one, two)
            with pytest.raises(BrokerUnavailable) as refused:
                await client.start(200)
            assert one.address in str(refused.value)
            assert two.address in str(refused.value)
            assert "check bootstrap.servers" in str(refused.value)
            await client.close()

    run(work())


def test_start_names_the_addresses_when_none_sends_anything() -> None:
    async def work() -> None:
        async with FakeBroker() as mute:
            mute.answers[ApiKey.API_VERSIONS] = lambda _: None
            client = client_of(mute)
            with pytest.raises(DeadlinePassed, match=f"no metadata from {mute.address} within 100 ms"):
                await client.start(100)
            await client.close()

    run(work())


def test_requests_are_pipelined_and_answered_in_order() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        numbers = iter(range(100))
        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(producer_id=next(numbers))
        replies = await asyncio.gather(*[client.send(1, ASK, InitProducerIdResponse) for _ in range(100)])
        assert [reply.producer_id for reply in replies] == list(range(100))

    with_client(test)


def test_no_more_requests_are_under_way_than_allowed() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        most = 0

        def answer(_request: Any) -> InitProducerIdResponse:
            nonlocal most
            most = max(most, client.link(1)._connection.in_flight)  # type: ignore[union-attr]
            return InitProducerIdResponse()

        broker.answers[ApiKey.INIT_PRODUCER_ID] = answer
        await asyncio.gather(*[client.send(1, ASK, InitProducerIdResponse) for _ in range(30)])
        assert most <= 3

    with_client(test, in_flight_max=3)


def test_a_caller_that_gives_up_does_not_block_the_others() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        waiting = [asyncio.create_task(client.send(1, ASK, InitProducerIdResponse)) for _ in range(3)]
        await until(lambda: len(broker.asked(ApiKey.INIT_PRODUCER_ID)) == 1)
        waiting[1].cancel()
        client.link(1)._connection._accept(  # type: ignore[union-attr]
            _frame_for(client, InitProducerIdResponse(producer_id=5))
        )
        assert (await waiting[0]).producer_id == 5
        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(producer_id=6)
        assert (await client.send(1, ASK, InitProducerIdResponse, channel=1)).producer_id == 6
        waiting[2].cancel()

    def _frame_for(client: NetworkClient, reply: InitProducerIdResponse) -> bytes:
        connection = client.link(1)._connection
        assert connection is not None
        pending = connection._pending[0]
        return pending.correlation_id.to_bytes(4, "big") + b"\0" + reply.encode(pending.version)

    with_client(test, in_flight_max=1)


def test_a_late_reply_ends_the_connection_and_the_next_request_makes_another() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        with pytest.raises(ConnectionLost, match="no reply to INIT_PRODUCER_ID in time"):
            await client.send(1, ASK, InitProducerIdResponse, timeout_ms=50)
        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(producer_id=5)
        assert (await client.send(1, ASK, InitProducerIdResponse)).producer_id == 5

    with_client(test)


def test_a_dropped_connection_fails_what_is_open_on_it() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: CLOSE
        outcomes = await asyncio.gather(
            *[client.send(1, ASK, InitProducerIdResponse) for _ in range(3)], return_exceptions=True
        )
        assert all(isinstance(outcome, ConnectionLost) for outcome in outcomes)

    with_client(test)


def test_a_broker_that_is_away_is_tried_with_growing_pauses() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        await broker.stop()
        started = time.monotonic()
        for _ in range(4):
            with pytest.raises(BrokerUnavailable):
                await client.send(1, ASK, InitProducerIdResponse)
        assert time.monotonic() - started > 0.1, "50, 100 and 200 ms, less a fifth"
        await broker.start()
        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(producer_id=5)
        assert (await client.send(1, ASK, InitProducerIdResponse)).producer_id == 5

    with_client(test, reconnect_backoff_ms=50, reconnect_backoff_max_ms=200)


def test_channels_have_connections_of_their_own() -> None:
    """A long Fetch must not hold up the heartbeat behind it."""

    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        broker.answers[ApiKey.HEARTBEAT] = lambda _: HeartbeatResponse()
        blocked = asyncio.create_task(client.send(1, ASK, InitProducerIdResponse))
        await client.send(1, HeartbeatRequest(), HeartbeatResponse, channel=COORDINATOR_CHANNEL)
        assert not blocked.done()
        blocked.cancel()

    with_client(test)


def test_versions_are_negotiated_and_an_api_that_is_not_served_is_an_error() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            broker.versions = {ApiKey.METADATA: (4, 7), ApiKey.INIT_PRODUCER_ID: (90, 99)}
            client = client_of(broker)
            await client.start()
            connection = client.link(-1)._connection
            assert connection is not None
            from tidelog.wire.messages.metadata import MetadataRequest

            assert connection.version_of(MetadataRequest) == 7
            assert connection.version_of(MetadataRequest, 5) == 5
            with pytest.raises(UnsupportedByBroker, match="no common version of InitProducerId"):
                await client.send(1, ASK, InitProducerIdResponse)
            with pytest.raises(UnsupportedByBroker, match="no common version of Metadata"):
                connection.version_of(MetadataRequest, 3)
            await client.close()

    run(work())


def test_an_old_broker_is_asked_again_in_the_version_it_knows() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            seen = [
                ApiVersionsResponse(
                    error_code=ErrorCode.UNSUPPORTED_VERSION,
                    api_keys=[ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=0)],
                ),
            ]
            # The refusal is written in version 0, whatever was asked.
            refusal = seen[0].encode(0)

            class InVersion0:
                def encode(self, _version: int) -> bytes:
                    return refusal

            answers = [InVersion0(), None]
            broker.answers[ApiKey.API_VERSIONS] = lambda _: answers.pop(0) or broker.api_versions()
            client = client_of(broker)
            await client.start()
            assert client.metadata.nodes
            await client.close()

    run(work())


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x46"])
def test_a_web_or_tls_port_is_recognised(greeting: bytes) -> None:
    async def work() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(greeting)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        loaded = load_settings(ProducerSettings, {"bootstrap.servers": f"127.0.0.1:{port}", **QUICK}, {})
        client = NetworkClient(loaded)
        with pytest.raises((InvalidReply, BrokerUnavailable)):
            await client.start(500)
        await client.close()
        server.close()

    run(work())


def test_throttled_brokers_are_left_alone_for_as_long_as_they_ask() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(throttle_time_ms=120)
        await client.send(1, ASK, InitProducerIdResponse)
        started = time.monotonic()
        assert client.ready_connection(1, lambda: None) is None
        await client.send(1, ASK, InitProducerIdResponse)
        assert time.monotonic() - started > 0.1

    with_client(test)


def test_a_connection_that_is_not_ready_calls_back_when_it_may_be() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        changes: list[int] = []
        assert client.ready_connection(1, lambda: changes.append(1)) is None
        await until(lambda: bool(changes))
        assert client.ready_connection(1, lambda: None) is not None
        assert client.ready_connection(99, lambda: None) is None, "not a broker of this cluster"

    with_client(test)


def test_concurrent_refreshes_share_their_questions() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        before = len(broker.asked(ApiKey.METADATA))
        await asyncio.gather(*[client.refresh() for _ in range(50)])
        assert len(broker.asked(ApiKey.METADATA)) - before <= 2

    with_client(test)


def test_who_asks_while_a_question_is_under_way_is_answered_by_the_next() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        first = asyncio.ensure_future(client.refresh())
        await asyncio.sleep(0)
        asked = len(broker.asked(ApiKey.METADATA))
        latecomers: list[asyncio.Future[None]] = []
        answer = broker.metadata

        def answer_and_ask(request: Any) -> MetadataResponse:
            if not latecomers:
                latecomers.append(asyncio.ensure_future(client.refresh()))
            return answer(request)

        broker.answers[ApiKey.METADATA] = answer_and_ask
        await first
        await latecomers[0]
        assert len(broker.asked(ApiKey.METADATA)) == asked + 2

    with_client(test)


def test_stale_metadata_is_asked_for_until_a_leader_is_there() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            client = client_of(broker, topics=("topic",))
            seen: list[int] = []
            client.on_metadata(lambda: seen.append(client.metadata.partition_count("topic")))
            await client.start()
            assert seen == [0]
            await until(lambda: len(seen) > 2)
            broker.topics["topic"] = 3
            await until(lambda: seen[-1] == 3)
            count = len(seen)
            await asyncio.sleep(0.1)
            assert len(seen) == count, "nothing is missing any more, so nothing is requested"
            await client.close()

    run(work())


def test_metadata_is_asked_for_when_it_is_too_old() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        before = len(broker.asked(ApiKey.METADATA))
        await until(lambda: len(broker.asked(ApiKey.METADATA)) >= before + 2)

    with_client(test, metadata_max_age_ms=30)


def test_a_broker_that_moved_is_reached_at_its_new_address() -> None:
    async def work() -> None:
        async with FakeBroker(node_id=1) as first, FakeBroker(node_id=1) as second:
            first.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(producer_id=1)
            second.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(producer_id=2)
            client = client_of(first)
            await client.start()
            assert (await client.send(1, ASK, InitProducerIdResponse)).producer_id == 1
            first.peers = [second]
            await client.refresh()
            assert (await client.send(1, ASK, InitProducerIdResponse)).producer_id == 2
            await client.close()

    run(work())


def test_closing_fails_what_waits_and_refuses_the_rest() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        waiting = asyncio.create_task(client.send(1, ASK, InitProducerIdResponse))
        await until(lambda: bool(broker.asked(ApiKey.INIT_PRODUCER_ID)))
        await client.close()
        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await client.send(1, ASK, InitProducerIdResponse)
        with pytest.raises(ClientClosed):
            await client.refresh()

    with_client(test)


def test_closing_while_connecting_ends_at_once() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            broker.answers[ApiKey.API_VERSIONS] = lambda _: None
            client = client_of(broker)
            starting = asyncio.create_task(client.start())
            await until(lambda: broker.connection_count > 0)
            await client.close()
            with pytest.raises((ClientClosed, BrokerUnavailable)):
                await starting

    run(work())


def test_idle_connections_are_closed() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse()
        await client.send(1, ASK, InitProducerIdResponse)
        await asyncio.sleep(0.02)
        client._watch_idle()
        assert client._links == {}

    with_client(test, connections_max_idle_ms=10)


def test_a_coordinator_is_found_once_and_again_after_it_was_wrong() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        refusals = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

        def answer(request: Any) -> FindCoordinatorResponse:
            code = refusals.pop(0) if refusals else ErrorCode.NONE
            return FindCoordinatorResponse(
                coordinators=[
                    Coordinator(key=key, node_id=1, host="127.0.0.1", port=broker.port, error_code=code)
                    for key in request.coordinator_keys
                ]
            )

        broker.answers[ApiKey.FIND_COORDINATOR] = answer
        found = await asyncio.gather(*[client.find_coordinator(CoordinatorType.GROUP, "g") for _ in range(5)])
        assert {node.node_id for node in found} == {1}
        assert len(broker.asked(ApiKey.FIND_COORDINATOR)) == 3
        client.forget_coordinator(CoordinatorType.GROUP, "g")
        await client.find_coordinator(CoordinatorType.GROUP, "g")
        assert len(broker.asked(ApiKey.FIND_COORDINATOR)) == 4

    with_client(test)


def test_a_coordinator_that_never_comes_or_is_refused_is_an_error() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE

        def answer(request: Any) -> FindCoordinatorResponse:
            return FindCoordinatorResponse(
                coordinators=[Coordinator(key="g", node_id=-1, error_code=code, error_message="why")]
            )

        broker.answers[ApiKey.FIND_COORDINATOR] = answer
        with pytest.raises(DeadlinePassed, match="no coordinator of group 'g' within 60 ms"):
            await client.find_coordinator(CoordinatorType.GROUP, "g", 60)
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        with pytest.raises(ApiError, match="why"):
            await client.find_coordinator(CoordinatorType.GROUP, "g")

    with_client(test)


def test_old_brokers_name_one_coordinator_at_a_time() -> None:
    async def work() -> None:
        async with FakeBroker() as broker:
            broker.versions = {ApiKey.FIND_COORDINATOR: (0, 2)}
            broker.answers[ApiKey.FIND_COORDINATOR] = lambda request: FindCoordinatorResponse(
                node_id=1, host="127.0.0.1", port=broker.port
            )
            client = client_of(broker)
            await client.start()
            assert (await client.find_coordinator(CoordinatorType.TRANSACTION, "id")).node_id == 1
            (asked,) = broker.asked(ApiKey.FIND_COORDINATOR)
            assert (asked.key, asked.key_type) == ("id", 1)
            await client.close()

    run(work())


def test_a_malformed_reply_ends_the_connection() -> None:
    async def test(broker: FakeBroker, client: NetworkClient) -> None:
        class Nonsense:
            def encode(self, _version: int) -> bytes:
                return b"\1"

        broker.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: Nonsense()
        with pytest.raises(InvalidReply, match="INIT_PRODUCER_ID"):
            await client.send(1, ASK, InitProducerIdResponse)

    with_client(test)
