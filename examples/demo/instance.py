"""One instance of the exactly-once demo, as a process of its own: consume, transform, produce, in transactions.

`python -m tidelog.examples.demo.instance BOOTSTRAP SESSION_TIMEOUT_MS NUMBER INPUT OUTPUT`, started and killed by
`demo_exactly_once`. Each transaction holds what was made of one poll and the offsets after it, so that both are there
or neither is.
"""

import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.client.consumer import Consumer
from tidelog.client.errors import ClientError, ProducerFenced
from tidelog.client.producer import Producer
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.wire.errors import ApiError

GROUP: Final = "exactly-once-demo"
_POLL_S: Final = 0.2
_TRANSACTION_TIMEOUT_MS: Final = 10_000
_RECORDS_A_TRANSACTION: Final = 200


def transform(value: bytes) -> bytes:
    """What the demo makes of a record: the number in it, squared, behind the number itself."""
    number = int(value)
    return b"%d:%d" % (number, number * number)


def consumer_settings(servers: str, session_timeout_ms: int) -> dict[str, object]:
    return {
        "bootstrap.servers": servers,
        "group.id": GROUP,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "max.poll.records": _RECORDS_A_TRANSACTION,
        "session.timeout.ms": session_timeout_ms,
        "heartbeat.interval.ms": session_timeout_ms // 5,
    }


def main(arguments: Sequence[str]) -> int:
    """Work until SIGTERM or SIGKILL."""
    servers, session_timeout_ms, number, source, target = arguments
    is_stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda signum, _frame: is_stopping.append(signum))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    producer_settings = {
        "bootstrap.servers": servers,
        "transactional.id": f"{GROUP}-{number}",
        "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
    }
    with (
        Consumer(consumer_settings(servers, int(session_timeout_ms))) as consumer,
        Producer(producer_settings) as producer,
    ):
        producer.init_transactions()
        consumer.subscribe([source])
        while not is_stopping:
            _work(consumer, producer, target)
    return 0


def _work(consumer: Consumer, producer: Producer, target: str) -> None:
    """One poll and its transaction. What fails is undone, and read again from where the group is."""
    records = consumer.poll(_POLL_S)
    if not records:
        return
    following: dict[TopicPartition, OffsetAndMetadata] = {}
    try:
        with producer.transaction():
            for record in records:
                producer.send(target, transform(record.value or b""), partition=record.partition)
                following[record.topic_partition] = OffsetAndMetadata(record.offset + 1)
            producer.send_offsets_to_transaction(following, consumer.group_metadata)
    except ProducerFenced:
        raise
    except (ClientError, ApiError):
        _go_back(consumer, following)


def _go_back(consumer: Consumer, touched: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Read again from the offsets that are committed, partitions that are still ours."""
    mine = [partition for partition in touched if partition in consumer.assignment]
    committed = consumer.committed(*mine) if mine else {}
    for partition in mine:
        place = committed.get(partition)
        consumer.seek(partition, 0 if place is None else place.offset)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
