"""Clients that send more than they read, and readers that do not read: memory stays bounded and everything arrives."""

from __future__ import annotations

import random
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.integration.inside import Inside
from tests.integration.raw_client import (
    RawClient,
    batch_of,
    end_offset,
    fetch_records,
    fetch_request,
    frame_of,
    produce,
    produce_request,
)
from tests.integration.siege import CALM_TOPIC, siege
from tests.integration.writers import wait_until
from tidelog.client import Admin, NewTopic
from tidelog.storage.log import _flushing
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode

PIPELINED = 5000
VALUE_BYTES = 2000
LARGE = "large"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"socket.listen.backlog.size": 512}, process=True) as broker:
        broker.create_topic(CALM_TOPIC, 1)
        broker.create_topic(LARGE, 1)
        for topic, config in {"written": {}, "synced": {"flush.messages": 1}, "awaited": {}}.items():
            broker.create_topic(topic, 1, config=config)
        with RawClient(broker.port) as client:
            for number in range(20):
                value = random.Random(number).randbytes(900_000)
                assert produce(client, LARGE, 0, batch_of([value])).error_code == ErrorCode.NONE
        yield broker


class Sender(threading.Thread):
    """Writes frames as fast as they are taken."""

    def __init__(self, client: RawClient, frames: list[bytes]) -> None:
        super().__init__(name="sender", daemon=True)
        self._client = client
        self._frames = frames

    def run(self) -> None:
        for frame in self._frames:
            self._client.socket.sendall(frame)


@pytest.mark.parametrize("topic", ["written", "synced"])
def test_five_thousand_produces_before_the_first_answer_is_read(broker: Broker, topic: str) -> None:
    """They are ten megabytes together. The broker takes what it can hold; all are answered, in order, and stored."""
    batch = batch_of([b"v" * VALUE_BYTES])
    frames = [frame_of(produce_request(topic, {0: batch}), 9, number) for number in range(PIPELINED)]
    with siege(broker) as bystander, RawClient(broker.port, receive_buffer=8192) as client:
        before = end_offset(client, topic, 0)
        sender = Sender(client, frames)
        sender.start()
        bystander.check_progress()
        offsets = []
        for number in range(PIPELINED):
            frame = client.frame()
            assert struct.unpack_from(">i", frame)[0] == number
            answer = messages.ProduceResponse.decode(frame, 9, 5).responses[0].partition_responses[0]
            assert answer.error_code == ErrorCode.NONE
            offsets.append(answer.base_offset)
        sender.join(30)
    assert offsets == list(range(before, before + PIPELINED))


def test_consumers_that_never_read_hold_no_records_in_memory(broker: Broker) -> None:
    """Thirty of them ask for eighteen megabytes a hundred times over. What they are owed stays in the files."""
    frame = frame_of(fetch_request(LARGE, {0: 0}), 12)
    with siege(broker) as bystander, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.port, receive_buffer=4096)) for _ in range(30)]
        for client in clients:
            client.socket.sendall(frame * 100)
        bystander.check_progress()
        bystander.check_progress()


def test_a_slow_consumer_gets_every_byte(broker: Broker) -> None:
    """Read in small sips through a small buffer, what was sent from the file is what was written."""
    expected = [random.Random(number).randbytes(900_000) for number in range(20)]
    with siege(broker), RawClient(broker.port, receive_buffer=4096) as client:
        assert [record.value for record in fetch_records(client, LARGE, 0)] == expected


def test_ten_thousand_fetches_that_wait_for_one_record(broker: Broker) -> None:
    clients_count, each = 50, 200
    with siege(broker) as bystander, ExitStack() as stack:
        with RawClient(broker.port) as client:
            end = end_offset(client, "awaited", 0)
            frame = frame_of(fetch_request("awaited", {0: end}, max_wait_ms=60_000), 12)
            clients = [stack.enter_context(RawClient(broker.port)) for _ in range(clients_count)]
            for waiting in clients:
                waiting.socket.sendall(frame * each)
            bystander.check_progress()
            assert produce(client, "awaited", 0, batch_of([b"at last"])).error_code == ErrorCode.NONE
        for waiting in clients:
            for _ in range(each):
                partition = waiting.answer(messages.FetchRequest, 12).responses[0].partitions[0]
                assert b"at last" in partition.records


def test_answers_that_wait_behind_a_slow_one_keep_no_other_client_out(broker: Broker) -> None:
    """Four connections with a thousand requests behind fetches that wait: twice `queued.max.requests`, all answered."""
    with siege(broker) as bystander, ExitStack() as stack:
        with RawClient(broker.port) as client:
            end = end_offset(client, "awaited", 0)
        waiting = frame_of(fetch_request("awaited", {0: end}, max_wait_ms=60_000), 12)
        behind = frame_of(produce_request("written", {0: batch_of([b"value"])}), 9)
        clients = [stack.enter_context(RawClient(broker.port)) for _ in range(4)]
        for client in clients:
            client.socket.sendall(waiting + behind * 250)
        bystander.check_progress()
        with RawClient(broker.port) as other:
            produce(other, "awaited", 0, batch_of([b"at last"]))
        for client in clients:
            assert client.answer(messages.FetchRequest, 12).responses[0].partitions[0].error_code == ErrorCode.NONE
            for _ in range(250):
                answer = client.answer(messages.ProduceRequest, 9).responses[0].partition_responses[0]
                assert answer.error_code == ErrorCode.NONE


# --- seen from inside ---


def counts(inside: Inside) -> dict[str, int]:
    """Everything that must return to what it was when clients have gone."""
    node = inside.node

    def look() -> dict[str, int]:
        return {
            "connections": len(node.socket_server.connections),
            "queued requests": node.socket_server.channel.queued_requests,
            "queued bytes": node.socket_server.channel.queued_bytes,
            "waiting fetches": node.replica_manager.fetch_purgatory.delayed,
            "waiting produces": node.replica_manager.produce_purgatory.delayed,
        }

    return {**inside.on_loop(look), "tasks": inside.task_count()}


def make_topic(inside: Inside, name: str, **configs: str) -> None:
    with Admin(bootstrap_servers=f"127.0.0.1:{inside.port}") as admin:
        admin.create_topics([NewTopic(name, 1, 1, {key.replace("_", "."): value for key, value in configs.items()})])


def test_nothing_of_a_client_stays_when_it_is_gone(tmp_path: Path) -> None:
    """Connections, counted requests, waiting operations and tasks: however the client leaves."""
    source = random.Random(7)
    with Inside(tmp_path) as inside:
        make_topic(inside, "topic", flush_messages="1")
        wait_until(lambda: counts(inside)["connections"] == 0, "the helper has gone")
        before = counts(inside)
        frames = [
            frame_of(fetch_request("topic", {0: 10**6}, max_wait_ms=2**31 - 1), 12),
            frame_of(fetch_request("topic", {0: 0}, max_wait_ms=2**31 - 1, min_bytes=2**30), 12),
            frame_of(produce_request("topic", {0: batch_of([b"value"])}), 9),
            frame_of(messages.MetadataRequest(topics=None), 12),
            frame_of(produce_request("topic", {0: batch_of([bytes(90_000)])}), 9)[:50_000],
            struct.pack(">ihhi", 90_000_000, 0, 9, 1),
            struct.pack(">i", -5),
        ]
        for _ in range(150):
            client = RawClient(inside.port)
            with suppress(ConnectionError):
                for _ in range(source.randrange(1, 30)):
                    client.socket.sendall(source.choice(frames))
            if source.random() < 0.5:
                client.reset()
            else:
                client.close()
        with suppress(AssertionError):
            wait_until(lambda: counts(inside) == before, "all is as it was", timeout_s=10)
        assert counts(inside) == before


def test_produces_that_wait_for_the_disk_do_not_fill_the_request_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `queued.max.requests=5` and a sync that takes its time: they are in purgatory, as in Kafka."""
    gate = threading.Event()
    sync = _flushing._sync_data

    def slow(descriptor: int) -> None:
        assert gate.wait(30)
        sync(descriptor)

    monkeypatch.setattr(_flushing, "_sync_data", slow)
    with Inside(tmp_path, {"queued.max.requests": 5}) as inside:
        make_topic(inside, "topic", flush_messages="1")
        with ExitStack() as stack:
            clients = [stack.enter_context(RawClient(inside.port)) for _ in range(8)]
            for client in clients:
                client.send(produce_request("topic", {0: batch_of([b"value"])}), 9)
            wait_until(lambda: counts(inside)["waiting produces"] == len(clients), "all produces wait")
            assert counts(inside)["queued requests"] == 0
            with RawClient(inside.port) as other:
                assert other.call(messages.ApiVersionsRequest(), 0).error_code == ErrorCode.NONE
            gate.set()
            for client in clients:
                answer = client.answer(messages.ProduceRequest, 9).responses[0].partition_responses[0]
                assert answer.error_code == ErrorCode.NONE
        wait_until(lambda: counts(inside)["queued requests"] == counts(inside)["connections"] == 0, "all is over")


def test_a_full_request_channel_makes_others_wait_and_then_goes_on(tmp_path: Path) -> None:
    """With `queued.max.requests=5` the sixth request of a turn waits for the next."""
    with Inside(tmp_path, {"queued.max.requests": 5}) as inside:
        make_topic(inside, "topic")
        with ExitStack() as stack:
            clients = [stack.enter_context(RawClient(inside.port)) for _ in range(8)]
            frame = frame_of(produce_request("topic", {0: batch_of([b"value"])}), 9)

            def send_all() -> None:
                """On the loop's own thread, so that one turn finds all of it."""
                for client in clients:
                    client.socket.sendall(frame * 10)

            inside.on_loop(send_all)
            leaving = stack.enter_context(RawClient(inside.port))
            leaving.socket.sendall(frame * 10)
            leaving.close()
            for client in clients:
                for _ in range(10):
                    answer = client.answer(messages.ProduceRequest, 9).responses[0].partition_responses[0]
                    assert answer.error_code == ErrorCode.NONE
        wait_until(lambda: counts(inside)["queued requests"] == counts(inside)["connections"] == 0, "all is over")
