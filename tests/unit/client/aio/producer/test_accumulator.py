"""Who is due, what is drained, in which order it comes back. Time is a number here."""

from tests.unit.client.aio.producer.parts import Bench
from tidelog.client.aio.producer.accumulator import NEVER
from tidelog.records.batch import iterate_records
from tidelog.records.header import read_header


def test_a_batch_is_due_when_it_is_full_or_has_lingered() -> None:
    bench = Bench(1, linger_ms=10, batch_size=200)
    bench.add(now_ms=100)
    ready = bench.accumulator.ready(103)
    assert (ready.nodes, ready.look_again_ms) == ({}, 7)
    assert bench.accumulator.ready(110).nodes == {1: [bench.queue()]}
    for _ in range(10):
        bench.add(now_ms=101)
    assert bench.accumulator.ready(103).nodes == {1: [bench.queue()]}, "a second batch was begun"


def test_flush_close_and_want_of_memory_make_everything_due() -> None:
    for hurry in ("is_flushing", "is_closing"):
        bench = Bench(1, linger_ms=1000)
        bench.add()
        assert bench.accumulator.ready(1).nodes == {}
        setattr(bench.accumulator, hurry, True)
        assert bench.accumulator.ready(1).nodes
    bench = Bench(1, linger_ms=1000)
    bench.add()
    bench.pool.waiting = 1
    assert bench.accumulator.ready(1).nodes


def test_a_partition_without_a_leader_waits_and_is_reported() -> None:
    bench = Bench(1, -1)
    bench.add(partition=1)
    ready = bench.accumulator.ready(0)
    assert (ready.nodes, ready.has_leaderless) == ({}, True)
    bench.learn(1, 2, epoch=1)
    assert bench.accumulator.ready(0).nodes == {2: [bench.queue(1)]}


def test_a_leader_without_a_known_address_is_none() -> None:
    bench = Bench(1, 99)
    assert [queue.leader_id for queue in bench.topic_queue.queues] == [1, -1]
    assert bench.topic_queue.available == [bench.queue(0)]


def test_one_batch_per_partition_is_drained_up_to_the_size_of_a_request() -> None:
    bench = Bench(1, 1, 1, batch_size=200)
    for partition in range(3):
        for _ in range(20):
            bench.add(bytes(50), partition=partition)
    first = bench.drain(0, limit_bytes=450)
    assert sorted(batch.partition for batch in first) in ([0, 1], [1, 2], [0, 2])
    second = bench.drain(0, limit_bytes=450)
    assert {batch.partition for batch in first + second} == {0, 1, 2}, "every partition gets its turn"


def test_a_batch_larger_than_a_request_goes_alone() -> None:
    bench = Bench(1, 1)
    bench.add(bytes(5000), partition=0)
    bench.add(bytes(5000), partition=1)
    assert len(bench.drain(0, limit_bytes=100)) == 1
    assert len(bench.drain(0, limit_bytes=100)) == 1


def test_with_one_request_in_flight_a_partition_is_muted_until_its_answer() -> None:
    bench = Bench(1, batch_size=50, max_in_flight_requests_per_connection=1, enable_idempotence=False)
    bench.add(bytes(30))
    bench.add(bytes(30))
    (first,) = bench.drain(0)
    assert bench.drain(0) == []
    bench.accumulator.unmute(first)
    (second,) = bench.drain(0)
    assert second is not first


def test_a_retry_waits_for_its_back_off_and_goes_before_the_rest() -> None:
    bench = Bench(1, batch_size=50, retry_backoff_ms=100, retry_backoff_max_ms=100)
    bench.add(bytes(30))
    later = bench.add(bytes(30))
    (first,) = bench.drain(0)
    bench.accumulator.requeue(first, 1000)
    assert first.attempts == 1
    assert bench.drain(1050) == [], "not even the batch behind it"
    assert bench.drain(1130) == [first]
    assert bench.drain(1130) == [later]


def test_a_new_leader_ends_the_back_off() -> None:
    """Waiting is for brokers that are not ready; the one that just took over is (KIP-951)."""
    bench = Bench(1, retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    bench.add()
    (batch,) = bench.drain(0)
    bench.accumulator.requeue(batch, 0)
    assert bench.drain(10) == []
    bench.learn(2, epoch=1)
    assert bench.drain(10) == [batch]


def test_retried_batches_return_in_the_order_of_their_sequence() -> None:
    bench = Bench(1, batch_size=50, is_idempotent=True)
    assert bench.sequence_tracker is not None
    first = bench.add(bytes(30))
    bench.drain(0)
    bench.sequence_tracker.completed(bench.queue().sequences, first, 0)  # type: ignore[arg-type]
    sent = []
    for _ in range(4):
        bench.add(bytes(30))
        sent += bench.drain(0)
    assert len(sent) == 4
    bench.add(bytes(30))
    for index in (2, 0, 3, 1):
        bench.accumulator.requeue(sent[index], 0)
    assert list(bench.queue().batches)[:4] == sent
    assert bench.drain(100_000) == [sent[0]], "one at a time until the order is restored"


def test_sequences_and_identity_are_in_the_bytes() -> None:
    bench = Bench(1, is_idempotent=True)
    batch = bench.add()
    bench.add()
    bench.drain(0)
    header = read_header(batch.encoded())
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 0, 0, 2)


def test_memory_is_reserved_with_a_batch_and_given_back_with_it() -> None:
    bench = Bench(1, batch_size=1000, buffer_memory=2500)
    bench.add(bytes(900))
    bench.add(bytes(900))
    assert bench.accumulator.begin_batch(bench.queue(), 900, 0) is None
    (batch,) = bench.drain(0)
    bench.accumulator.finish(batch)
    assert bench.accumulator.begin_batch(bench.queue(), 900, 0) is not None


def test_a_record_larger_than_a_batch_gets_a_batch_of_its_own_size() -> None:
    bench = Bench(1, batch_size=100)
    batch = bench.add(bytes(5000))
    assert batch.limit_bytes >= 5013
    assert bench.add(b"next") is not batch


def test_memory_is_reserved_as_a_batch_grows() -> None:
    """With thousands of partitions most batches never get full, and must not hold memory as if they would."""
    bench = Bench(1, batch_size=100_000, buffer_memory=60_000)
    batch = bench.add(bytes(10_000))
    assert bench.pool.free_bytes == 60_000 - 16 * 1024
    assert bench.accumulator.widen(batch, 10_000)
    assert bench.pool.free_bytes == 60_000 - 32 * 1024
    assert not bench.accumulator.widen(batch, 80_000), "there is not the memory"
    assert not bench.accumulator.widen(batch, 99_000), "that would be more than a batch"
    bench.drain(0)
    bench.accumulator.finish(batch)
    assert bench.pool.free_bytes == 60_000


def test_a_topic_that_found_a_batch_too_large_gets_smaller_ones() -> None:
    bench = Bench(1, batch_size=4000)
    for _ in range(30):
        bench.add(bytes(100))
    (batch,) = bench.drain(0)
    parts = bench.accumulator.divide(batch)
    while bench.queue().batches:
        bench.drain(0)
    assert bench.add(bytes(100)).most_bytes <= batch.encoded_bytes // 2
    assert len(parts) >= 2


def test_what_waits_too_long_is_taken_out() -> None:
    bench = Bench(1, batch_size=50, delivery_timeout_ms=30_000, request_timeout_ms=1000)
    old = bench.add(bytes(30), now_ms=0)
    new = bench.add(bytes(30), now_ms=20_000)
    assert bench.accumulator.expiry_in_ms(10_000) == 20_000
    assert bench.accumulator.expire(29_999) == []
    assert bench.accumulator.expire(30_000) == [old]
    assert list(bench.queue().batches) == [new]


def test_nothing_incomplete_never_expires() -> None:
    assert Bench(1).accumulator.expiry_in_ms(5) == NEVER


def test_a_batch_too_large_comes_back_in_parts_with_its_sequences() -> None:
    bench = Bench(1, batch_size=2000, is_idempotent=True)
    for number in range(10):
        batch = bench.add(str(number).encode().rjust(100))
    (sent,) = bench.drain(0)
    assert sent is batch
    parts = bench.accumulator.divide(sent)
    assert sum(part.count for part in parts) == 10
    assert [part.state.base_sequence for part in parts] == [
        0,
        parts[0].count,
        *[sum(each.count for each in parts[:index]) for index in range(2, len(parts))],
    ]
    assert list(bench.queue().batches) == parts
    values = []
    for part in parts:
        assert bench.drain(0) == [part]
        values += [int(record.value or b"") for record in iterate_records(bytes(part.encoded()))]
        bench.sequence_tracker.completed(bench.queue().sequences, part, 0)  # type: ignore[union-attr, arg-type]
        bench.accumulator.finish(part)
    assert values == list(range(10))
    assert bench.pool.free_bytes == bench.pool.total_bytes


def test_outside_its_transaction_a_partition_sends_nothing() -> None:
    bench = Bench(1, is_transactional=True, transactional_id="id")
    bench.add()
    assert bench.drain(0) == []
    assert bench.accumulator.outside_transaction() == [bench.queue()]
    bench.queue().is_in_transaction = True
    (batch,) = bench.drain(0)
    assert read_header(batch.encoded()).is_transactional
    bench.accumulator.leave_transaction()
    assert not bench.queue().is_in_transaction


def test_an_abort_drops_what_has_no_sequence_and_keeps_what_may_be_stored() -> None:
    bench = Bench(1, is_transactional=True, transactional_id="id", batch_size=50)
    bench.queue().is_in_transaction = True
    sent = bench.add(bytes(30))
    unsent = bench.add(bytes(30))
    bench.drain(0)
    bench.accumulator.requeue(sent, 0)
    assert bench.accumulator.take_all(only_unsent=True) == [unsent]
    assert list(bench.queue().batches) == [sent]
    assert bench.accumulator.take_all() == [sent]


def test_a_prebuilt_batch_closes_the_open_one_before_it() -> None:
    bench = Bench(1, is_idempotent=True)
    before = bench.add()
    (first,) = bench.drain(0)
    assert first is before
    whole = bench.accumulator.add_prebuilt(bench.queue(), bytes(first.encoded()), 1, 0)
    assert whole is not None
    assert bench.queue().open is None
    bench.sequence_tracker.completed(bench.queue().sequences, first, 0)  # type: ignore[union-attr, arg-type]
    assert bench.drain(0) == [whole]
    assert read_header(whole.encoded()).base_sequence == 1


def test_compression_lets_an_open_batch_take_more() -> None:
    bench = Bench(1, compression_type="gzip", batch_size=1000, buffer_memory=1 << 20)
    before = bench.add(bytes(10)).limit_bytes
    for _ in range(20):
        for _ in range(200):
            bench.add(bytes(100))
        while batches := bench.drain(0):
            bench.accumulator.finish(batches[0])
    assert bench.add(bytes(10)).limit_bytes > before * 2


def test_partitions_that_are_gone_are_not_offered_and_new_ones_are() -> None:
    bench = Bench(1, 1)
    bench.learn(1, epoch=1)
    assert (bench.topic_queue.partition_count, len(bench.topic_queue.available)) == (1, 1)
    bench.learn(1, 1, 2, epoch=2)
    assert (bench.topic_queue.partition_count, len(bench.topic_queue.available)) == (3, 3)
