"""What our producer promises on any cluster. `test_producer` holds it against our broker, `tests/compat/apache_kafka`
against Apache Kafka: both import these tests and provide `servers`."""

import asyncio
import threading
from typing import Any, cast

import pytest

from tests.integration.client_support import SECONDS, make_topic, read_all, run, unique, values
from tests.unit.present import present
from tidelog.client import AsyncProducer, Producer, ProducerRecord, RecordMetadata
from tidelog.client.errors import ClientClosed, DeadlinePassed, RecordTooLarge, SerializationFailed
from tidelog.client.partitioner import partition_for_key
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record
from tidelog.wire.errors import ApiError, ErrorCode


def test_a_record_arrives_as_it_was_sent_and_its_metadata_has_its_offset(servers: str) -> None:
    topic = make_topic(servers, 3)

    async def work() -> RecordMetadata:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            delivery = await producer.send(
                topic, b"value", b"key", partition=2, headers={"a": b"1", "b": None}, timestamp_ms=1_700_000_000_123
            )
            return await delivery

    assert run(work()) == RecordMetadata(topic, 2, 0, 1_700_000_000_123)
    (message,) = read_all(servers, topic, 3)
    assert (message.partition(), message.key(), message.value()) == (2, b"key", b"value")
    assert message.headers() == [("a", b"1"), ("b", None)]
    assert message.timestamp() == (1, 1_700_000_000_123)


def test_nulls_and_empty_values_stay_apart(servers: str) -> None:
    topic = make_topic(servers)

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            for value, key in ((None, None), (b"", b""), (None, b"k"), (b"v", None)):
                await producer.send(topic, value, key)

    run(work())
    found = [(message.value(), message.key()) for message in read_all(servers, topic)]
    assert found == [(None, None), (b"", b""), (None, b"k"), (b"v", None)]


def test_order_is_kept_over_many_small_batches(servers: str) -> None:
    topic = make_topic(servers)
    sent = [str(number).encode() for number in range(5000)]

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, batch_size=400) as producer:
            for value in sent:
                await producer.send(topic, value)

    run(work())
    assert values(read_all(servers, topic)) == sent


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in Codec])
def test_every_codec_is_read_by_others(servers: str, codec: str) -> None:
    topic = make_topic(servers)
    sent = [b"compressible " * 10 + str(number).encode() for number in range(500)]

    async def work() -> None:
        async with AsyncProducer(
            bootstrap_servers=servers, compression_type=cast(Any, codec), linger_ms=20
        ) as producer:
            for value in sent:
                await producer.send(topic, value, b"k")

    run(work())
    assert values(read_all(servers, topic)) == sent


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_stored_whatever_the_acks(servers: str, acks: str) -> None:
    topic = make_topic(servers)

    async def work() -> RecordMetadata:
        async with AsyncProducer(bootstrap_servers=servers, acks=cast(Any, acks)) as producer:
            await producer.send(topic, b"first")
            return await producer.send_and_wait(topic, b"second")

    assert run(work()).offset == (-1 if acks == "0" else 1)
    assert values(read_all(servers, topic, expected=2)) == [b"first", b"second"]


def test_keys_go_where_murmur2_puts_them_and_the_rest_is_spread(servers: str) -> None:
    topic = make_topic(servers, 4)
    keys = [f"key-{number}".encode() for number in range(200)]

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, batch_size=200) as producer:
            for key in keys:
                await producer.send(topic, b"keyed", key)
            for number in range(400):
                await producer.send(topic, b"free" + str(number).encode())

    run(work())
    found = read_all(servers, topic, 4)
    assert {m.key(): m.partition() for m in found if m.key()} == {key: partition_for_key(key, 4) for key in keys}
    assert {m.partition() for m in found if m.key() is None} == {0, 1, 2, 3}
    assert len(found) == 600


def test_an_own_partitioner_is_asked(servers: str) -> None:
    topic = make_topic(servers, 3)

    def by_value(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        return int(value or b"0") % count

    async def work() -> list[int]:
        async with AsyncProducer(bootstrap_servers=servers, partitioner_class=by_value) as producer:
            return [(await producer.send_and_wait(topic, str(n).encode())).partition for n in range(6)]

    assert run(work()) == [0, 1, 2, 0, 1, 2]


def test_callbacks_come_in_the_order_of_the_sends(servers: str) -> None:
    topic = make_topic(servers)
    delivered: list[int] = []

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, batch_size=300) as producer:
            for _ in range(300):
                await producer.send(
                    topic, b"value", on_delivery=lambda found, error: delivered.append(present(found).offset)
                )

    run(work())
    assert delivered == list(range(300))


def test_a_failing_callback_affects_no_other_record(servers: str) -> None:
    topic = make_topic(servers)

    def fail(metadata: RecordMetadata | None, error: Exception | None) -> None:
        raise RuntimeError("a callback of the caller's")

    async def work() -> RecordMetadata:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            await producer.send(topic, b"one", on_delivery=fail)
            return await producer.send_and_wait(topic, b"two")

    assert run(work()).offset == 1


class Witness:
    """An interceptor that upper-cases values and remembers acknowledgements."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(value=present(record.value).upper())

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        self.seen.append(type(error) if error is not None else metadata and metadata.offset)


def _four_bytes(number: int) -> bytes:
    return number.to_bytes(4, "big")


def test_interceptors_come_before_serializers_and_hear_the_outcome(servers: str) -> None:
    topic = make_topic(servers)
    witness = Witness()

    async def work() -> None:
        async with AsyncProducer(
            bootstrap_servers=servers,
            interceptor_classes=[witness],
            value_serializer=str.encode,
            key_serializer=_four_bytes,
        ) as producer:
            await producer.send_and_wait(topic, "text", 7)
            with pytest.raises(SerializationFailed, match="key 'seven'"):
                await producer.send(topic, "text", cast(Any, "seven"))

    run(work())
    (message,) = read_all(servers, topic)
    assert (message.value(), message.key()) == (b"TEXT", b"\0\0\0\7")
    assert witness.seen == [0, SerializationFailed]


def test_what_is_not_bytes_is_refused_where_it_is_sent(servers: str) -> None:
    topic = make_topic(servers)

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            with pytest.raises(SerializationFailed, match="value of type str"):
                await producer.send(topic, cast(Any, "text"))
            with pytest.raises(SerializationFailed, match="header"):
                await producer.send(topic, b"", headers={"a": "text"})  # type: ignore[dict-item]
            with pytest.raises(ValueError, match="timestamp -5"):
                await producer.send(topic, b"", timestamp_ms=-5)

    run(work())


def test_a_record_beyond_max_request_size_is_refused_at_once(servers: str) -> None:
    topic = make_topic(servers)

    async def work() -> RecordMetadata:
        async with AsyncProducer(bootstrap_servers=servers, max_request_size=1000) as producer:
            with pytest.raises(RecordTooLarge, match=r"max\.request\.size=1000"):
                await producer.send(topic, bytes(1000))
            return await producer.send_and_wait(topic, b"fits")

    assert run(work()).offset == 0


def test_a_batch_too_large_for_its_topic_is_sent_in_parts(servers: str) -> None:
    topic = make_topic(servers, config={"max.message.bytes": "2000"})
    sent = [str(number).encode().rjust(100) for number in range(200)]

    async def work() -> list[int]:
        async with AsyncProducer(bootstrap_servers=servers, linger_ms=50) as producer:
            deliveries = [await producer.send(topic, value) for value in sent]
            return [(await delivery).offset for delivery in deliveries]

    assert run(work()) == list(range(200))
    assert values(read_all(servers, topic)) == sent


def test_a_single_record_too_large_for_its_topic_fails_and_the_others_go_on(servers: str) -> None:
    topic = make_topic(servers, config={"max.message.bytes": "2000"})

    async def work() -> list[object]:
        async with AsyncProducer(bootstrap_servers=servers, linger_ms=30) as producer:
            deliveries = [await producer.send(topic, bytes(size)) for size in (10, 5000, 20)]
            outcomes: list[object] = []
            for delivery in deliveries:
                try:
                    outcomes.append((await delivery).offset)
                except ApiError as error:
                    outcomes.append(error.code)
            outcomes.append((await producer.send_and_wait(topic, b"after")).offset)
            return outcomes

    assert run(work()) == [0, ErrorCode.MESSAGE_TOO_LARGE, 1, 2]
    assert [len(value or b"") for value in values(read_all(servers, topic))] == [10, 20, 5]


def test_flush_returns_when_everything_is_stored(servers: str) -> None:
    topic = make_topic(servers)

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, linger_ms=60_000) as producer:
            deliveries = [await producer.send(topic, b"value") for _ in range(10)]
            assert not any(delivery.done() for delivery in deliveries)
            await producer.flush(10)
            assert [delivery.result().offset for delivery in deliveries] == list(range(10))

    run(work())


def test_close_sends_what_lingers_and_a_closed_producer_refuses(servers: str) -> None:
    topic = make_topic(servers)

    async def work() -> None:
        producer = AsyncProducer(bootstrap_servers=servers, linger_ms=60_000)
        await producer.start()
        delivery = await producer.send(topic, b"value")
        await producer.close()
        assert delivery.result().offset == 0
        with pytest.raises(ClientClosed):
            await producer.send(topic, b"value")

    run(work())


def test_closing_with_no_time_fails_what_was_not_sent(servers: str) -> None:
    topic = make_topic(servers)

    async def work() -> None:
        producer = AsyncProducer(bootstrap_servers=servers, linger_ms=60_000)
        await producer.start()
        delivery = await producer.send(topic, b"value")
        await producer.close(0)
        with pytest.raises(ClientClosed):
            await delivery

    run(work())
    assert read_all(servers, topic) == []


def test_little_memory_slows_down_and_loses_nothing(servers: str) -> None:
    topic = make_topic(servers, 2)

    async def work() -> None:
        async with AsyncProducer(
            bootstrap_servers=servers, buffer_memory=5000, batch_size=1000, max_block_ms=20_000
        ) as producer:
            await asyncio.gather(*[sending(producer, start) for start in range(4)])

    async def sending(producer: AsyncProducer, start: int) -> None:
        for number in range(start, 2000, 4):
            await producer.send(topic, str(number).encode())

    run(work())
    assert sorted(values(read_all(servers, topic, 2))) == sorted(str(n).encode() for n in range(2000))  # type: ignore[type-var]


def test_a_partition_that_never_comes_ends_the_wait(servers: str) -> None:
    topic = make_topic(servers, 2)

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=servers, max_block_ms=300) as producer:
            with pytest.raises(DeadlinePassed, match=r"2 partitions.*max\.block\.ms=300"):
                await producer.send(topic, b"value", partition=7)

    run(work())


def test_an_unknown_topic_is_waited_for_no_longer_than_max_block_ms(servers: str) -> None:
    async def work() -> None:
        async with AsyncProducer(
            bootstrap_servers=servers, max_block_ms=300, allow_auto_create_topics=False
        ) as producer:
            with pytest.raises(DeadlinePassed, match=r"max\.block\.ms=300"):
                await producer.send(unique("nowhere"), b"value")
            with pytest.raises(DeadlinePassed, match=r"after 100 ms$"):
                await producer.partitions_for(unique("nowhere"), timeout_s=0.1)
            with pytest.raises(ApiError) as refused:
                await producer.send("no such name!", b"value")
            assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION

    run(work())


def test_a_batch_built_elsewhere_gets_its_place_in_the_sequence(servers: str) -> None:
    topic = make_topic(servers)
    built = build_batch([Record(n, 1_700_000_000_000 + n, None, b"built") for n in range(3)], codec=Codec.LZ4)

    async def work() -> list[int]:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            first = await producer.send(topic, b"before")
            whole = await producer.append_batch(topic, 0, built, 3)
            last = await producer.send(topic, b"after")
            return [(await each).offset for each in (first, whole, last)]

    assert run(work()) == [0, 1, 4]
    assert values(read_all(servers, topic)) == [b"before", b"built", b"built", b"built", b"after"]


def test_log_append_time_is_returned(servers: str) -> None:
    topic = make_topic(servers, config={"message.timestamp.type": "LogAppendTime"})

    async def work() -> RecordMetadata:
        async with AsyncProducer(bootstrap_servers=servers) as producer:
            return await producer.send_and_wait(topic, b"value", timestamp_ms=5)

    (message,) = [run(work())]
    assert message.timestamp > 1_700_000_000_000
    assert read_all(servers, topic)[0].timestamp() == (2, message.timestamp)


def test_the_blocking_producer_is_shared_by_threads(servers: str) -> None:
    topic = make_topic(servers, 3)
    with Producer({"bootstrap.servers": servers, "linger.ms": 5}) as producer:
        assert producer.partitions_for(topic) == 3

        def work(start: int) -> None:
            for number in range(start, 4000, 4):
                producer.send(topic, str(number).encode(), str(start).encode())

        threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(SECONDS)
        delivered = producer.send(topic, b"last", partition=0).result(SECONDS)
    found = read_all(servers, topic, 3)
    assert len(found) == 4001
    assert delivered == RecordMetadata(topic, 0, delivered.offset, delivered.timestamp)
    for start in range(4):
        mine = [int(present(m.value())) for m in found if m.key() == str(start).encode()]
        assert mine == list(range(start, 4000, 4)), "the records of one thread and key keep their order"


def test_blocking_deliveries_call_back_and_blocking_in_a_callback_is_refused(servers: str) -> None:
    topic = make_topic(servers)
    outcomes: list[Any] = []
    done = threading.Event()
    with Producer(bootstrap_servers=servers) as producer:

        def delivered(metadata: RecordMetadata | None, error: Exception | None) -> None:
            try:
                producer.flush()
            except Exception as refused:
                outcomes.append(refused)
            producer.send(topic, b"from the callback").add_done_callback(lambda _: done.set())

        producer.send(topic, b"first", on_delivery=delivered)
        assert done.wait(SECONDS)
    assert "from a callback" in str(outcomes[0])
    assert values(read_all(servers, topic)) == [b"first", b"from the callback"]
