"""What the figures of the clients say, on whichever broker `servers` names."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.integration.client_support import SECONDS, make_topic, run, unique
from tidelog.client import Admin, AsyncConsumer, AsyncProducer, Consumer, Producer, ProducerMetrics, TopicPartition


def test_a_producer_counts_what_it_stored(servers: str) -> None:
    topic = make_topic(servers, 2)
    with Producer(bootstrap_servers=servers, linger_ms=60_000) as producer:
        for number in range(10):
            producer.send(topic, b"v" * 100, partition=number % 2)
        waiting = producer.metrics()
        assert (waiting.records_stored, waiting.batches_incomplete) == (0, 2)
        assert 0 < waiting.buffer_bytes_used <= waiting.buffer_bytes_total
        producer.flush(SECONDS)
        figures = producer.metrics()
    assert (figures.records_stored, figures.records_failed, figures.batches_incomplete) == (10, 0, 0)
    first = figures.partitions[TopicPartition(topic, 0)]
    assert (first.records_stored, first.batches_stored, first.batches_waiting) == (5, 1, 0)
    assert first.bytes_stored > 500
    leader = figures.brokers[first.leader_id]
    assert leader.connections_open == leader.connections_made == 1
    assert leader.requests_in_flight == leader.connections_failed == leader.connections_lost == 0
    assert leader.bytes_sent > first.bytes_stored
    assert leader.bytes_received > 0
    produced = leader.by_api["PRODUCE"]
    assert produced.replies >= 1
    assert 0 < produced.latency_s_mean <= produced.latency_s_max


def test_a_consumer_counts_what_it_returned_and_knows_its_lag(servers: str) -> None:
    topic = make_topic(servers)
    at = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(10):
            producer.send(topic, b"v" * 100)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=4) as consumer:
        consumer.assign([at])
        assert consumer.metrics().partitions[at].lag is None
        while not consumer.poll(SECONDS):
            pass
        figures = consumer.metrics()
        part = figures.partitions[at]
        assert (part.position, part.lag, part.records_returned, part.fetches_waiting) == (4, 6, 4, 1)
        assert (figures.records_returned, figures.lag) == (4, 6)
        assert part.bytes_fetched == figures.bytes_fetched > 1000
        assert figures.brokers[part.leader_id].by_api["FETCH"].replies >= 1
        consumer.pause(at)
        assert consumer.metrics().partitions[at].is_paused


def test_figures_of_every_client_are_json(servers: str) -> None:
    topic = make_topic(servers)
    found: list[Any] = []

    async def work() -> None:
        async with (
            AsyncProducer(bootstrap_servers=servers) as producer,
            AsyncConsumer(bootstrap_servers=servers) as one,
        ):
            await producer.send_and_wait(topic, b"value")
            await one.assign([TopicPartition(topic, 0)])
            found.extend((producer.metrics(), one.metrics()))

    run(work())
    with Admin(bootstrap_servers=servers, client_id="watcher") as admin:
        found.append(admin.metrics())
    written = [json.loads(json.dumps(each.as_dict())) for each in found]
    assert written[0]["partitions"][f"{topic}-0"]["records_stored"] == 1
    assert written[2]["client_id"] == "watcher"
    assert all(isinstance(each["age_s"], float) and each["brokers"] for each in written)


def test_the_age_of_every_client_counts_from_when_it_was_made(servers: str) -> None:
    for kind in (Producer, Consumer, Admin):
        before = time.monotonic()
        with kind(bootstrap_servers=servers) as client:  # type: ignore[operator]
            age_s = _age_above(0.0, client.metrics)
            later_s = _age_above(age_s, client.metrics)
            assert age_s < later_s <= time.monotonic() - before + _TICK_S


_TICK_S = 0.002
"""The loop's clock has milliseconds: one is lost when a client is made, and one when its age is asked for."""


def _age_above(bound_s: float, metrics: Callable[[], Any]) -> float:
    """The age of a client once it is above a bound, which is a tick of the loop's clock later at most."""
    deadline = time.monotonic() + SECONDS
    while (age_s := metrics().age_s) <= bound_s:
        assert time.monotonic() < deadline, f"the client's age stays {age_s} s"
    return float(age_s)


def test_a_callback_gets_the_figures_again_and_again(servers: str) -> None:
    """One that raises is logged, and called again."""
    came: list[ProducerMetrics] = []
    enough = threading.Event()

    def take(figures: ProducerMetrics) -> None:
        came.append(figures)
        if len(came) == 3:
            enough.set()
        raise RuntimeError("a mistake of the application's")

    with Producer(
        bootstrap_servers=servers, client_id=unique("statistics"), statistics_interval_ms=10, statistics_callback=take
    ) as producer:
        assert enough.wait(SECONDS)
        assert came[0].client_id == producer.metrics().client_id
    assert came[0].age_s < came[-1].age_s
