"""Nine producers of three kinds at once, and everything there once and in order."""

import random
from concurrent.futures import ThreadPoolExecutor

from tests.compat.clients.batches import numbered
from tests.compat.clients.conftest import MakeTopic
from tests.compat.clients.drivers import CODECS, DRIVERS, Message

LIBRDKAFKA = DRIVERS[0]
WRITERS = 9
PARTITIONS = 3
ROUNDS = 3
COUNT = 200


def test_many_clients_write_at_once(servers: str, make_topic: MakeTopic) -> None:
    """Each writer's records keep their order within a partition, whatever is written between them."""
    topic = make_topic(PARTITIONS, **{"segment.bytes": 100_000})
    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(lambda writer: _write(servers, topic, writer), range(WRITERS)))
    for partition in range(PARTITIONS):
        count = LIBRDKAFKA.watermarks(servers, topic, partition=partition)[1]
        records = LIBRDKAFKA.consume(servers, topic, count, partition=partition)
        assert [record.offset for record in records] == list(range(count))
        values: dict[bytes | None, list[bytes | None]] = {}
        for record in records:
            values.setdefault(record.key, []).append(record.value)
        assert values == {
            b"%d" % writer: [b"%d" % number for number in range(ROUNDS * COUNT)]
            for writer in range(partition, WRITERS, PARTITIONS)
        }


def _write(servers: str, topic: str, writer: int) -> None:
    client = DRIVERS[writer // PARTITIONS]
    choose = random.Random(writer)
    for first in range(0, ROUNDS * COUNT, COUNT):
        client.produce(
            servers,
            topic,
            [Message(message.value, b"%d" % writer) for message in numbered(COUNT, first=first)],
            partition=writer % PARTITIONS,
            codec=choose.choice([codec for codec in CODECS if client.has_codec(codec)]),
            idempotent=choose.choice([True, None]),
            batch_bytes=choose.choice([500, 5000, 50_000]),
        )
