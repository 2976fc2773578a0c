"""A record takes the short way in C exactly where it does in Python, and leaves the same behind."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.unit.client.aio.producer.test_sink import Desk
from tidelog.client._native import speedups
from tidelog.client.aio.producer.delivery import BlockingDelivery, Delivery
from tidelog.client.partitioner import partition_for_key
from tidelog.client.producer import Producer

pytestmark = pytest.mark.skipif(speedups is None, reason="the C module was not built")

PARTITIONS = 5


class Bytes(bytes):
    """A subclass, which the short way leaves alone."""


values = st.one_of(st.none(), st.binary(max_size=40), st.binary(max_size=3).map(Bytes), st.just("text"), st.just(7))
headers = st.sampled_from([None, (), [], {}, {"a": b""}, [("a", None)], 0, 7])
timestamps = st.one_of(
    st.integers(0, (1 << 63) - 1), st.sampled_from([-1, 1 << 63, 1 << 80, -(1 << 70), True, 1.5, "1"])
)
calls = st.tuples(
    st.sampled_from(["topic", "topic", "topic", "other", None]),
    values,
    values,
    st.sampled_from([None, None, None, 0, 1]),
    headers,
    timestamps,
    st.sampled_from([None, None, None, print]),
)


def desk(open_partitions: set[int], sticky: int, room: int) -> Desk:
    """A topic of five partitions, some of which have an open batch with so much room."""
    made = Desk(*[1] * PARTITIONS)
    for partition in open_partitions:
        made.bench.add(partition=partition).limit_bytes = 18 + room
    made.bench.topic_queue.sticky = made.bench.queue(sticky)
    made.make_appendable()
    return made


def left(made: Desk) -> list[Any]:
    """Everything that appending changes."""
    opened = [queue.open for queue in made.bench.topic_queue.queues]
    return [None if batch is None else (batch.records, batch.size_bytes) for batch in opened]


@settings(max_examples=examples(300), deadline=None)
@given(st.sets(st.integers(0, PARTITIONS - 1)), st.integers(0, PARTITIONS - 1), st.integers(0, 300), st.lists(calls))
def test_the_same_records_are_taken(opened: set[int], sticky: int, room: int, given_calls: list[Any]) -> None:
    in_c, in_python = desk(opened, sticky, room), desk(opened, sticky, room)
    assert in_c.sink.appender is not None
    for call in given_calls:
        taken, expected = in_c.sink.appender(*call), in_python.sink.append_in_python(*call)
        assert type(taken) is type(expected)
        if expected is not None:
            assert type(taken) is Delivery
            assert taken._index == expected._index
            assert taken._batch.partition == expected._batch.partition
        assert left(in_c) == left(in_python)


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=300), st.integers(1, PARTITIONS))
def test_a_key_goes_to_its_partition(key: bytes, count: int) -> None:
    made = desk(set(range(PARTITIONS)), 0, 1000)
    made.bench.topic_queue.partition_count = count
    assert made.sink.appender is not None
    delivery = made.sink.appender("topic", b"", key, None, None, 1, None)
    assert delivery._batch.partition == partition_for_key(key, count)


def test_a_record_without_timestamp_gets_the_time_of_the_call() -> None:
    made = desk({0}, 0, 1000)
    assert made.sink.appender is not None
    before = time.time_ns() // 1_000_000
    made.sink.appender("topic", b"", None, None, None, None, None)
    queue = made.bench.queue(0)
    assert queue.open is not None
    assert before <= queue.open.records[-1][0] <= time.time_ns() // 1_000_000


class Sending(Producer[bytes, bytes]):
    """A producer whose longer way only tells what it got, without a cluster."""

    def __init__(self, made: Desk) -> None:
        self._lock = threading.RLock()
        self._in_c = made.sink.appender

    def __del__(self) -> None:
        pass


def test_send_takes_the_lock_and_leaves_the_rest_to_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    assert speedups is not None
    longer: list[Any] = []

    def send(self: Any, *arguments: Any, **named: Any) -> None:
        longer.append((arguments, named))

    made = desk({0}, 0, 1000)
    made.sink.appender = speedups.Appender(
        made.sink.appendable_topics,
        type(made.bench.topic_queue),
        type(made.bench.queue(0)),
        type(made.bench.queue(0).open),
        BlockingDelivery,
        13,
    )
    producer: Any = Sending(made)
    monkeypatch.setattr(Sending, "send", speedups.Send(send))
    for quick in (
        producer.send("topic"),
        producer.send("topic", b"v"),
        producer.send("topic", value=b"v"),
        producer.send("topic", key=None, value=b"v"),
    ):
        assert type(quick) is BlockingDelivery
    producer.send("other", b"v")
    producer.send("topic", b"v", partition=0)
    producer.send("topic", b"v", value=b"v")
    producer.send(topic="topic")
    producer.send("topic", b"v", None, 0)
    assert longer == [
        (("other", b"v"), {}),
        (("topic", b"v"), {"partition": 0}),
        (("topic", b"v"), {"value": b"v"}),
        ((), {"topic": "topic"}),
        (("topic", b"v", None, 0), {}),
    ]
    producer._in_c = None
    producer.send("topic", b"v")
    assert longer[-1] == (("topic", b"v"), {})
    with pytest.raises(TypeError, match="unhashable"):
        _send_unhashable(producer, made)
    assert producer._lock.acquire(blocking=False), "it is free after an error"


def _send_unhashable(producer: Any, made: Desk) -> None:
    producer._in_c = made.sink.appender
    producer.send([])


def test_send_waits_for_the_lock() -> None:
    made = desk({0}, 0, 1000)
    producer = Sending(made)
    taken: list[Any] = []
    with producer._lock:
        thread = threading.Thread(target=lambda: taken.append(producer.send("topic", b"v")))
        thread.start()
        thread.join(0.05)
        assert taken == []
    thread.join()
    assert len(taken) == 1


def test_send_is_documented_as_the_method_is() -> None:
    assert Producer.send.__name__ == "send"
    assert "Take a record" in (Producer.send.__doc__ or "")
