"""Hostile and broken bytes on a live socket: the broker lives, its memory stays bounded, other clients do not notice.

Each test runs inside a `siege`: a bystander must be served all the while, memory may grow by 60 MiB at most, every
descriptor comes back, and the log shows no failure of the broker's own. `TIDELOG_SEED` replays the random ones.
"""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.effort import usually
from tests.integration.mutations import VICTIM_TOPIC, extremes, mutants, plausible, served_requests
from tests.integration.raw_client import RawClient, batch_of, fetch_request, frame_of, produce, produce_request
from tests.integration.siege import CALM_TOPIC, siege
from tests.integration.writers import wait_until
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.frames import encode_request
from tidelog.wire.messages import describe_configs

HEAVY_TOPIC = "heavy"
SEED = int(os.environ.get("TIDELOG_SEED", "20240917"))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    # One file of each internal topic: which of many are open at the end depends on the requests that were drawn.
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    config = {"auto.create.topics.enable": False, "socket.listen.backlog.size": 512}
    config |= dict.fromkeys((f"{topic}.num.partitions" for topic in internal), 1)
    with Broker(config, process=True) as broker:
        broker.create_topic(CALM_TOPIC, 1)
        broker.create_topic(VICTIM_TOPIC, 2)
        broker.create_topic(HEAVY_TOPIC, 2)
        with RawClient(broker.port) as client:
            for _ in range(8):
                assert produce(client, HEAVY_TOPIC, 0, batch_of([bytes(900_000)])).error_code == ErrorCode.NONE
        yield broker


def attack(port: int, frames: Iterator[bytes] | list[bytes], burst: int = 20) -> None:
    """Send frames, a few on each connection, and wait until the broker is done with them."""
    frames = iter(frames)
    while batch := [frame for _, frame in zip(range(burst), frames, strict=False)]:
        with RawClient(port) as client:
            try:
                client.socket.sendall(b"".join(batch))
                client.socket.shutdown(socket.SHUT_WR)
                assert client.is_closed_by_peer(), "the broker hangs on a connection that has ended"
            except (BrokenPipeError, ConnectionResetError):
                continue


def test_random_bytes(broker: Broker) -> None:
    source = random.Random(SEED)

    def junk() -> bytes:
        data = source.randbytes(source.choice((1, 3, 4, 8, 20, 200, 5000)))
        return data if source.random() < 0.3 else struct.pack(">i", len(data)) + data

    with siege(broker):
        attack(broker.port, (junk() for _ in range(1500)), burst=1)


@pytest.mark.parametrize("count", usually([4], [4, 15]))
def test_requests_that_no_client_would_send(broker: Broker, count: int) -> None:
    """Well-formed requests of every API and version with values at and beyond the edges."""
    source = random.Random(SEED)
    with siege(broker):
        for request, version in served_requests():
            attack(broker.port, [frame_of(plausible(request, version, source), version) for _ in range(count)])


@pytest.mark.parametrize("rounds", usually([1], [1, 6]))
def test_mutated_requests_of_every_api_and_version(broker: Broker, rounds: int) -> None:
    source = random.Random(SEED)
    with siege(broker):
        for request, version in served_requests():
            for _ in range(rounds):
                attack(broker.port, mutants(plausible(request, version, source), version, source, 8), burst=1)


@pytest.mark.parametrize("places", usually([30], [30, 150]))
def test_counts_and_lengths_of_two_billion(broker: Broker, places: int) -> None:
    """At every place of a request in turn: nothing is allocated for what a number only claims."""
    source = random.Random(SEED)
    with siege(broker):
        for request, version in served_requests():
            if version == request.versions[1] or version == request.flexible_from - 1:
                frames = list(extremes(plausible(request, version, source), version))
                attack(broker.port, source.sample(frames, min(len(frames), places)), burst=1)


def test_headers_that_reach_into_the_next_request(broker: Broker) -> None:
    """A request too short for its own header must not be read on into its neighbour's bytes."""
    whole = frame_of(messages.ApiVersionsRequest(), 0)
    with siege(broker):
        for size in range(10):
            for api_key in (0, 1, 3, 18):
                head = struct.pack(">hhihx", api_key, 0, 7, 100)[:size]
                with RawClient(broker.port) as client:
                    client.socket.sendall(struct.pack(">i", size) + head + whole)
                    client.socket.shutdown(socket.SHUT_WR)
                    assert client.is_closed_by_peer()


@pytest.mark.parametrize(
    "head",
    [
        (ApiKey.METADATA, 1, struct.pack(">i", 30_000_000)),
        (ApiKey.FETCH, 4, struct.pack(">iiiibi", -1, 1, 1, 1000, 0, 30_000_000)),
        (ApiKey.DELETE_TOPICS, 1, struct.pack(">i", 30_000_000)),
    ],
    ids=["Metadata", "Fetch", "DeleteTopics"],
)
def test_a_list_of_thirty_million_names(broker: Broker, head: tuple[ApiKey, int, bytes]) -> None:
    """The bytes are all there; an object for each name would be gigabytes, and a long wait for everybody else."""
    api_key, version, start = head
    frame = encode_request(api_key, version, 1, "raw", start + b"\x00\x01x" * 30_000_000)
    with siege(broker, growth_bytes_max=200 << 20), RawClient(broker.port) as client:
        with suppress(ConnectionError):
            client.socket.sendall(frame)
        assert client.is_closed_by_peer()


def test_three_hundred_promises_of_ninety_megabytes(broker: Broker) -> None:
    with siege(broker, growth_bytes_max=30 << 20) as bystander, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.port)) for _ in range(300)]
        for client in clients:
            client.socket.sendall(struct.pack(">i", 90_000_000) + b"ab")
        bystander.check_progress()
        for client in clients[:50]:
            client.socket.sendall(bytes(3000))
        bystander.check_progress()


def test_half_a_frame_and_then_silence(broker: Broker) -> None:
    frame = frame_of(produce_request(VICTIM_TOPIC, {0: batch_of([bytes(20_000)])}), 9)
    with siege(broker) as bystander, ExitStack() as stack:
        for cut in range(1, 200):
            client = stack.enter_context(RawClient(broker.port))
            client.socket.sendall(frame[: cut * len(frame) // 200])
        bystander.check_progress()


def test_a_request_that_comes_byte_by_byte(broker: Broker) -> None:
    """Slow writers cost what they have sent, and are answered when they are done."""
    frame = frame_of(messages.ApiVersionsRequest(), 2)
    with siege(broker) as bystander, ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.port)) for _ in range(50)]
        for position in range(len(frame)):
            for client in clients:
                client.socket.sendall(frame[position : position + 1])
        for client in clients:
            assert client.answer(messages.ApiVersionsRequest, 2).error_code == ErrorCode.NONE
        bystander.check_progress()


def test_resets_at_every_stage(broker: Broker) -> None:
    """In the middle of a request, before an answer that waits, and in the middle of a large answer."""
    source = random.Random(SEED)
    writing = frame_of(produce_request(HEAVY_TOPIC, {1: batch_of([bytes(50_000)])}), 9)
    waiting = frame_of(fetch_request(HEAVY_TOPIC, {1: 0}, max_wait_ms=2**31 - 1, min_bytes=2**30), 12)
    reading = frame_of(fetch_request(HEAVY_TOPIC, {0: 0}), 12)
    with siege(broker):
        for _ in range(200):
            with RawClient(broker.port, receive_buffer=4096) as client:
                frame = source.choice((writing, waiting, reading))
                client.socket.sendall(frame[: source.randrange(1, len(frame))] if frame is writing else frame)
                if frame is reading:
                    client.socket.recv(1000)
                client.reset()


def test_fetches_that_wait_for_weeks_end_with_their_connections(broker: Broker) -> None:
    """Otherwise each would stay until its deadline, which the client sets."""
    with RawClient(broker.port) as client:
        end = produce(client, HEAVY_TOPIC, 1, batch_of([b"value"])).base_offset + 1
    waiting = frame_of(fetch_request(HEAVY_TOPIC, {1: end}, max_wait_ms=2**31 - 1), 12)
    with siege(broker, growth_bytes_max=30 << 20):
        for _ in range(40):
            with RawClient(broker.port) as client:
                client.socket.sendall(waiting * 250)
                client.socket.shutdown(socket.SHUT_WR)
                assert client.is_closed_by_peer()


def everything_described() -> messages.DescribeConfigsRequest:
    resources = [describe_configs.DescribeConfigsResource(resource_type=4, resource_name="", configuration_keys=None)]
    resources += [
        describe_configs.DescribeConfigsResource(resource_type=2, resource_name=HEAVY_TOPIC, configuration_keys=None)
    ] * 40
    return messages.DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)


FLOODS = {
    "small answers": (messages.ApiVersionsRequest(), 2, 10_000),
    "large answers": (everything_described(), 4, 80),
    "records": (fetch_request(HEAVY_TOPIC, {0: 0}), 12, 30),
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_requests_whose_answers_are_not_read(broker: Broker, kind: str) -> None:
    """The broker stops reading such a client; once it reads, all its answers come, in order."""
    request, version, count = FLOODS[kind]
    sent = threading.Event()
    progress = 0

    def flood(client: RawClient) -> None:
        nonlocal progress
        for number in range(count):
            client.socket.sendall(frame_of(request, version, number))
            progress = number
        sent.set()

    with siege(broker) as bystander, RawClient(broker.port, receive_buffer=8192, timeout_s=90) as client:
        sender = threading.Thread(target=flood, args=(client,), daemon=True)
        sender.start()
        wait_until(lambda: sent.is_set() or is_stuck(lambda: progress), "the flood ends or is held back")
        bystander.check_progress()
        for number in range(count):
            assert struct.unpack_from(">i", client.frame())[0] == number
        sender.join(30)
        assert sent.is_set()


def is_stuck(progress: object, for_s: float = 0.3) -> bool:
    """Whether a number has stood still for a while."""
    before = progress()  # type: ignore[operator]
    time.sleep(for_s)
    return before == progress()  # type: ignore[operator,no-any-return]


def test_a_flood_that_is_never_read_and_then_leaves(broker: Broker) -> None:
    frame = frame_of(fetch_request(HEAVY_TOPIC, {0: 0}), 12)
    with siege(broker) as bystander, ExitStack() as stack:
        for _ in range(20):
            client = stack.enter_context(RawClient(broker.port, receive_buffer=4096))
            client.socket.sendall(frame * 500)
        bystander.check_progress()
