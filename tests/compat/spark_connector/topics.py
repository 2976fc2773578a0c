"""Topics with something in them, written by a client that neither connector is made of."""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat.spark_connector.connectors import Header, Row, in_order
from tests.unit.present import present

DEADLINE_S = 30.0
EPOCH_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Sent(NamedTuple):
    """One record to send."""

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp_ms: int = EPOCH_MS
    headers: tuple[Header, ...] = ()


def numbered(count: int, partitions: int = 1, start: int = 0) -> list[Sent]:
    """Records one second apart, spread over the partitions in turn."""
    return [
        Sent(b"value %d" % number, b"key %d" % number, number % partitions, EPOCH_MS + 1000 * number)
        for number in range(start, start + count)
    ]


def produce(servers: str, topic: str, records: Iterable[Sent], **settings: object) -> None:
    """Send the records and return when all are there."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 5, **_dotted(settings)})
    _send(producer, topic, records)
    assert producer.flush(DEADLINE_S) == 0


class Transactions:
    """A transactional producer: `committed` and `aborted` are whole transactions, `left_open` one without an end."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        # An open transaction must stay open while a test looks at it.
        settings = {"transactional.id": f"id-of-{topic}", "transaction.timeout.ms": 600_000, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": servers, **settings})
        self._producer.init_transactions(DEADLINE_S)

    def committed(self, records: Iterable[Sent]) -> None:
        self.left_open(records)
        self._producer.commit_transaction(DEADLINE_S)

    def aborted(self, records: Iterable[Sent]) -> None:
        self.left_open(records)
        self._producer.abort_transaction(DEADLINE_S)

    def left_open(self, records: Iterable[Sent]) -> None:
        """The records are in the log when this returns, decided or not."""
        self._producer.begin_transaction()
        _send(self._producer, self._topic, records)
        assert self._producer.flush(DEADLINE_S) == 0

    def abort(self) -> None:
        self._producer.abort_transaction(DEADLINE_S)


def delete_records(servers: str, topic: str, partition: int, before: int) -> None:
    """DeleteRecords: the log begins at `before` from now on."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        assert future.result(DEADLINE_S).low_watermark == before


def consumed(servers: str, topic: str, partitions: int, isolation: str = "read_uncommitted") -> list[Row]:
    """All rows of a topic by a third client's account."""
    settings = {"group.id": "none", "isolation.level": isolation, "enable.partition.eof": True, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": servers, "auto.offset.reset": "earliest", **settings})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    rows: list[Row] = []
    ended: set[int] = set()
    deadline = time.monotonic() + DEADLINE_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"the ends of {topic} are not in sight"
        for message in consumer.consume(1000, timeout=0.2):
            if message.error():
                ended.add(present(message.partition()))
                continue
            kind, timestamp_ms = message.timestamp()
            place = present(message.topic()), present(message.partition()), present(message.offset())
            headers: Any = tuple(message.headers() or ()) or None
            # librdkafka counts the kinds of timestamps from one.
            rows.append(Row(*place, message.key(), message.value(), timestamp_ms * 1000, kind - 1, headers))
    consumer.close()
    return in_order(rows)


def wait_until_compacted(servers: str, topic: str, rows_max: int) -> list[Row]:
    """Wait for the cleaner; returns what it has left."""
    deadline = time.monotonic() + DEADLINE_S
    while len(rows := consumed(servers, topic, 1)) > rows_max:
        assert time.monotonic() < deadline, f"{topic} still has {len(rows)} rows"
        time.sleep(0.05)
    return rows


def _send(producer: Producer, topic: str, records: Iterable[Sent]) -> None:
    for record in records:
        producer.produce(
            topic,
            record.value,
            record.key,
            record.partition,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
        )
        producer.poll(0)


def _dotted(settings: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def expected_rows(topic: str, sent: Sequence[Sent]) -> list[Row]:
    """The rows that a source must give for records sent in this order into an empty topic."""
    ends: dict[int, int] = {}
    rows = []
    for record in sent:
        offset = ends.get(record.partition, 0)
        ends[record.partition] = offset + 1
        place = (topic, record.partition, offset)
        rows.append(Row(*place, record.key, record.value, record.timestamp_ms * 1000, 0, record.headers or None))
    return in_order(rows)
