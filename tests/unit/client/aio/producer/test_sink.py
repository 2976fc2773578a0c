from typing import Any

import pytest

from tests.unit.client.aio.producer.parts import Bench
from tidelog.client.aio.producer.partitioners import choose_sticky
from tidelog.client.aio.producer.sink import Missing, RecordSink, check_topic, read_only_headers
from tidelog.client.errors import RecordTooLarge, SerializationFailed
from tidelog.client.partitioner import partition_for_key
from tidelog.records.bulk import assemble_batch


class Desk:
    """A sink over an accumulator."""

    def __init__(self, *leaders: int, **settings: Any) -> None:
        self.bench = Bench(*leaders, **settings)  # type: ignore[arg-type]
        self.woken = 0
        self.sink = RecordSink(self.bench.settings, self.bench.accumulator, self.bench.pool, on_work=self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def place(self, value: Any = b"value", key: Any = None, partition: int | None = None, **rest: Any) -> object:
        headers, timestamp, callback = rest.get("headers"), rest.get("timestamp_ms"), rest.get("on_delivery")
        return self.sink.place(
            self.bench.topic_queue,
            value,
            key,
            partition,
            headers,
            timestamp,
            callback,
            0,
            had_turn=bool(rest.get("had_turn", True)),  # type: ignore[arg-type]
        )

    def append(self, value: Any = b"value", key: Any = None, **rest: Any) -> object:
        return self.sink.append(
            "topic",
            value,
            key,
            rest.get("partition"),
            rest.get("headers"),
            rest.get("timestamp_ms"),
            rest.get("on_delivery"),  # type: ignore[arg-type]
        )

    def make_appendable(self) -> None:
        self.bench.topic_queue.sticky = self.bench.topic_queue.sticky or choose_sticky(
            self.bench.topic_queue, is_adaptive=False
        )
        self.sink.appendable_topics["topic"] = self.bench.topic_queue


def test_the_short_way_takes_what_fits_an_open_batch_and_nothing_else() -> None:
    desk = Desk(1)
    assert desk.append() is None, "the topic is not appendable yet"
    desk.make_appendable()
    assert desk.append() is None, "no batch is open"
    desk.place()
    assert desk.append() is not None
    assert desk.append(None) is not None
    assert desk.append(b"", b"key") is not None
    assert desk.append("text") is None
    assert desk.append(b"", 7) is None
    assert desk.append(headers={"a": b""}) is None
    assert desk.append(partition=0) is None
    assert desk.append(on_delivery=lambda *_: None) is None
    assert desk.append(bytearray(b"x")) is None
    assert desk.append(bytes(20_000)) is None
    assert len(desk.bench.queue().open.records) == 4  # type: ignore[union-attr]


def test_both_ways_choose_the_partition_of_a_key() -> None:
    desk = Desk(1, 1, 1)
    expected = partition_for_key(b"key", 3)
    desk.place(b"value", b"key")
    desk.make_appendable()
    assert desk.append(b"value", b"key") is not None
    assert len(desk.bench.queue(expected).open.records) == 2  # type: ignore[union-attr]


def test_a_batch_begun_wakes_the_sender_and_a_record_added_does_not() -> None:
    desk = Desk(1)
    desk.place()
    desk.place()
    assert desk.woken == 1


def test_a_full_batch_gives_the_sender_its_turn_first() -> None:
    desk = Desk(1, batch_size=100)
    desk.place(bytes(20), had_turn=False)
    assert desk.place(bytes(50), had_turn=False) is Missing.TURN
    assert not isinstance(desk.place(bytes(50), had_turn=True), Missing)
    assert len(desk.bench.queue().batches) == 2


def test_want_of_memory_and_of_partitions_is_reported() -> None:
    desk = Desk(1, buffer_memory=200, batch_size=150)
    desk.place(bytes(50))
    assert desk.place(bytes(100)) is Missing.MEMORY
    assert desk.place(partition=5) is Missing.METADATA
    with pytest.raises(ValueError, match="partition -1"):
        desk.place(partition=-1)


def test_what_can_never_be_sent_is_refused() -> None:
    desk = Desk(1, max_request_size=500)
    with pytest.raises(RecordTooLarge, match=r"max\.request\.size=500"):
        desk.place(bytes(500))
    with pytest.raises(SerializationFailed, match=r"key of type int.*key\.serializer"):
        desk.place(b"", 5)
    with pytest.raises(ValueError, match="timestamp"):
        desk.place(timestamp_ms="now")
    tight = Desk(1, buffer_memory=300)
    with pytest.raises(RecordTooLarge, match=r"buffer\.memory=300"):
        tight.place(bytes(400))


def test_records_without_key_stick_for_a_batch_and_then_move() -> None:
    desk = Desk(1, 1, 1, 1, batch_size=200)
    visited: list[Any] = []
    for _ in range(200):
        desk.place(bytes(50))
        sticky = desk.bench.topic_queue.sticky
        assert sticky is not None
        if not visited or visited[-1] != sticky.partition:
            visited.append(sticky.partition)
    assert set(visited) == {0, 1, 2, 3}
    assert 20 < len(visited) < 100, "about one move per batch of three records"


def test_batches_sent_early_do_not_move_the_partition_before_a_batch_is_through() -> None:
    """Else slow brokers, whose batches wait and fill, would get more records than quick ones (KIP-794)."""
    desk = Desk(1, 1, 1, batch_size=500)
    visited = set()
    for _ in range(4):
        desk.place(bytes(50))
        visited.add(desk.bench.topic_queue.sticky.partition)  # type: ignore[union-attr]
        desk.bench.drain(10)
    assert len(visited) == 1


def test_a_batch_on_its_way_takes_no_more_memory() -> None:
    desk = Desk(1, 1, batch_size=100_000)
    desk.place(bytes(10_000))
    (sent,) = desk.bench.drain(10)
    desk.bench.accumulator.finish(sent)
    desk.place(bytes(60_000))
    assert sent.reserved_bytes == 0


def test_a_sticky_partition_that_is_gone_is_left() -> None:
    desk = Desk(1, 1)
    desk.bench.topic_queue.sticky = desk.bench.queue(1)
    desk.bench.learn(1, epoch=1)
    desk.place()
    assert desk.bench.topic_queue.sticky is desk.bench.queue(0)


def test_an_own_partitioner_and_ignored_keys_close_the_short_way() -> None:
    assert Desk(1).sink.takes_shortcuts
    assert not Desk(1, partitioner_class=lambda *_: 0).sink.takes_shortcuts
    assert not Desk(1, partitioner_ignore_keys=True).sink.takes_shortcuts


def test_headers_are_taken_as_pairs_or_as_a_mapping_and_cannot_change_later() -> None:
    given = [("a", b"1"), ("a", None)]
    taken = read_only_headers(given)
    given.append(("b", b"2"))
    assert taken == (("a", b"1"), ("a", None))
    assert read_only_headers({"x": b"y"}) == (("x", b"y"),)
    assert read_only_headers(None) == ()
    with pytest.raises(SerializationFailed, match="header 5"):
        read_only_headers([(5, b"")])  # type: ignore[list-item]


def test_views_and_byte_arrays_are_copied() -> None:
    desk = Desk(1)
    given = bytearray(b"before")
    desk.place(given)
    given[:] = b"after!"
    assert desk.bench.queue().open.records[0][2] == b"before"  # type: ignore[union-attr]


@pytest.mark.parametrize("timestamp_ms", [-1, 1.5, "now", 1 << 63])
def test_a_timestamp_that_is_none_is_refused_on_either_way(timestamp_ms: Any) -> None:
    """One bad record in a batch would fail all others when the batch is encoded."""
    desk = Desk(1)
    desk.make_appendable()
    desk.place()
    assert desk.append(timestamp_ms=5) is not None
    assert desk.append(timestamp_ms=timestamp_ms) is None
    with pytest.raises(ValueError, match="is not a number of milliseconds"):
        desk.place(timestamp_ms=timestamp_ms)


@pytest.mark.parametrize("headers", [[("\ud800", b"")], [(b"a", b"")], [("a",)], [("a", "b")], 5])
def test_headers_that_cannot_be_encoded_are_refused(headers: Any) -> None:
    with pytest.raises(SerializationFailed, match="text and bytes"):
        read_only_headers(headers)  # type: ignore[arg-type]
    assert read_only_headers([("\udcff", b"")]) == (("\udcff", b""),), "a byte that is no UTF-8, as consumers return it"


@pytest.mark.parametrize("partition", [-1, "0", 1.0])
def test_a_partition_is_a_number(partition: Any) -> None:
    with pytest.raises(ValueError, match="must be a number, 0 or higher"):
        Desk(1).place(partition=partition)  # type: ignore[arg-type]


@pytest.mark.parametrize("topic", [None, 5, b"t", "\udcff"])
def test_a_topic_that_no_request_can_carry_is_refused(topic: Any) -> None:
    with pytest.raises(ValueError, match="is not a topic name"):
        check_topic(topic)  # type: ignore[arg-type]


def test_a_batch_that_is_not_one_whole_batch_is_refused() -> None:
    desk = Desk(1)
    made = bytes(assemble_batch([(1, b"k", b"v", ())] * 3).buffer)
    assert desk.sink.place_batch(desk.bench.topic_queue, 0, made, 3, 0) is not None
    for data, count in ((made, 2), (made, 0), (made[:-1], 3), (made + made, 3), (b"", 1), (b"garbage", 1)):
        with pytest.raises(ValueError, match="are not one whole batch"):
            desk.sink.place_batch(desk.bench.topic_queue, 0, data, count, 0)
    with pytest.raises(ValueError, match="must be a number, 0 or higher"):
        desk.sink.place_batch(desk.bench.topic_queue, -1, made, 3, 0)
