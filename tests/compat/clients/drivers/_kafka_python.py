"""kafka-python: pure Python, with codecs as far as their packages are installed."""

import time
import warnings
from collections.abc import Sequence
from contextlib import closing

with warnings.catch_warnings():
    # It reads its message definitions with a function that Python 3.11 deprecated and 3.13 brought back.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    import kafka.admin
    import kafka.codec
    from kafka.errors import BrokerResponseError

from tests.compat.clients.drivers.types import DEADLINE_S, Message, Refused, Stored

_HAS_CODEC = {
    "none": lambda: True,
    "gzip": kafka.codec.has_gzip,
    "snappy": kafka.codec.has_snappy,
    "lz4": kafka.codec.has_lz4,
    "zstd": kafka.codec.has_zstd,
}


class KafkaPythonDriver:
    """Incremental fetch sessions and idempotence are its defaults."""

    name = "kafka-python"

    def has_codec(self, codec: str) -> bool:
        return bool(_HAS_CODEC[codec]())

    def produce(
        self,
        servers: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool | None = None,
        batch_bytes: int = 1 << 20,
    ) -> list[int]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            acks=acks if acks == "all" else int(acks),
            enable_idempotence=acks == "all" if idempotent is None else idempotent,
            linger_ms=20,
            batch_size=batch_bytes,
            max_request_size=20 << 20,
            max_block_ms=int(DEADLINE_S * 1000),
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=partition,
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            producer.flush(DEADLINE_S)
            return [future.get(DEADLINE_S).offset for future in futures]
        except BrokerResponseError as error:
            raise Refused(error.errno, str(error)) from error
        finally:
            producer.close(DEADLINE_S)

    def consume(
        self,
        servers: str,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
        isolation: str = "read_uncommitted",
        partition_bytes: int = 1 << 20,
    ) -> list[Stored]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=servers,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=isolation,
            max_partition_fetch_bytes=partition_bytes,
            fetch_max_wait_ms=100,
        )
        found: list[Stored] = []
        try:
            place = kafka.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, offset)
            deadline = time.monotonic() + DEADLINE_S
            while len(found) < count and time.monotonic() < deadline:
                polled = consumer.poll(100, max_records=count - len(found))
                found += [
                    Stored(r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple(r.headers))
                    for r in polled.get(place, ())
                ]
        finally:
            consumer.close()
        assert len(found) == count, f"{len(found)} of {count} records of {topic}-{partition} came"
        return found

    def watermarks(self, servers: str, topic: str, *, partition: int = 0) -> tuple[int, int]:
        place = kafka.TopicPartition(topic, partition)
        with closing(kafka.KafkaConsumer(bootstrap_servers=servers)) as consumer:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]

    def offset_for_time(self, servers: str, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        place = kafka.TopicPartition(topic, partition)
        with closing(kafka.KafkaConsumer(bootstrap_servers=servers)) as consumer:
            found = consumer.offsets_for_times({place: timestamp})[place]
            return None if found is None else found.offset
