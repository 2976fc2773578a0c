"""Tables against single records: `poll_arrow` and `send_arrow` beside the clients of confluent-kafka and kafka-python.

    python -m benchmarks.clients_arrow [--records 1000000] [--rounds 5] [--codec none]

One broker in a process of its own, one topic with 8-byte keys and 100-byte values. Every client reads the same topic
from its beginning, and writes the same records to a topic of its own, one client after another, round after round.
Reading counts what arrives in the form the client gives to an application, from the first records on, so that no
client's way to its first fetch is counted; writing ends with all records acknowledged (acks=all). The kernels are
called once before, so that no compilation is measured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, cast

import pyarrow as pa

from benchmarks.tidelog_broker import use_source_tree

use_source_tree()

from tidelog.client import Consumer, Producer, TopicPartition  # noqa: E402
from tidelog.testing import Broker  # noqa: E402

VALUE_BYTES = 100
_IDLE_S = 10.0
_SLOW_SHARE = 5
"""kafka-python gets a fifth of the records, and its figure is a rate like the others."""

Run = Callable[[str, str, int], float]


def make_table(count: int) -> pa.Table:
    """`count` rows of 8-byte keys and 100-byte values."""
    return pa.table(
        {
            "key": pa.array([b"key-%04d" % (index % 10_000) for index in range(count)], pa.binary()),
            "value": pa.array([(b"%09d " % index * 10) for index in range(count)], pa.binary()),
        }
    )


def _partitions(servers: str, topic: str) -> int:
    with Producer(bootstrap_servers=servers) as producer:
        return producer.partitions_for(topic)


def _rate(read: Callable[[], int], count: int) -> float:
    """Records a second of a reader that returns how many came, from the first that came to the last of `count`."""
    first = seen = read()
    started = time.perf_counter()
    while seen < count:
        rows = read()
        assert rows, f"{seen} of {count} records came"
        seen += rows
    return (seen - first) / (time.perf_counter() - started)


def read_arrow(servers: str, topic: str, count: int) -> float:
    """Records a second of `poll_arrow`."""
    partitions = _partitions(servers, topic)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        return _rate(lambda: consumer.poll_arrow(_IDLE_S).num_rows, count)


def read_confluent(servers: str, topic: str, count: int) -> float:
    """The same for confluent-kafka, by its faster call: `consume` of many messages at once."""
    import confluent_kafka as ck

    consumer = ck.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # By default it rests for a second whenever 100,000 records wait, which would be most of what is measured.
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([ck.TopicPartition(topic, index, 0) for index in range(_partitions(servers, topic))])

        def read() -> int:
            messages = consumer.consume(10_000, _IDLE_S)
            return sum(1 for message in messages if message.value() is not None and message.key() is not None)

        return _rate(read, count)
    finally:
        consumer.close()


def read_kafka_python(servers: str, topic: str, count: int) -> float:
    """The same for kafka-python."""
    import kafka

    consumer = kafka.KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False)
    try:
        consumer.assign([kafka.TopicPartition(topic, index) for index in range(_partitions(servers, topic))])

        def read() -> int:
            polled = consumer.poll(timeout_ms=int(_IDLE_S * 1000), max_records=10_000)
            return sum(map(len, polled.values()))

        return _rate(read, count)
    finally:
        consumer.close()


def write_arrow(table: pa.Table, codec: str) -> Run:
    """Rows a second of `send_arrow`, to the last acknowledgement."""

    def run(servers: str, topic: str, count: int) -> float:
        rows = table.slice(0, count)
        with Producer(bootstrap_servers=servers, compression_type=cast(Any, codec)) as producer:
            producer.partitions_for(topic)
            started = time.perf_counter()
            producer.send_arrow(rows, topic=topic).result()
            return count / (time.perf_counter() - started)

    return run


def write_confluent(records: Sequence[tuple[bytes, bytes]], codec: str) -> Run:
    """The same for confluent-kafka, with batches as large."""
    import confluent_kafka as ck

    def run(servers: str, topic: str, count: int) -> float:
        producer = ck.Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": codec,
                "batch.size": 524_288,
                "batch.num.messages": 100_000,
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
                "partitioner": "murmur2_random",
                "log_level": 0,
            }
        )
        started = time.perf_counter()
        for key, value in records[:count]:
            while True:
                try:
                    producer.produce(topic, value, key)
                    break
                except BufferError:
                    producer.poll(0.01)
        assert producer.flush(120) == 0
        return count / (time.perf_counter() - started)

    return run


def write_kafka_python(records: Sequence[tuple[bytes, bytes]], codec: str) -> Run:
    """The same for kafka-python."""
    import kafka

    def run(servers: str, topic: str, count: int) -> float:
        producer = kafka.KafkaProducer(
            bootstrap_servers=servers,
            acks="all",
            batch_size=524_288,
            linger_ms=5,
            compression_type=None if codec == "none" else codec,
        )
        started = time.perf_counter()
        for key, value in records[:count]:
            producer.send(topic, value, key)
        producer.flush()
        rate = count / (time.perf_counter() - started)
        producer.close()
        return rate

    return run


Rates = Mapping[str, Sequence[float]]


def measure(broker: Broker, clients: Mapping[str, Run], count: int, rounds: int, topic: str | None) -> Rates:
    """Records a second of each client, round by round. Writers get a topic each and round, readers `topic`."""
    rates: dict[str, list[float]] = {name: [] for name in clients}
    for turn in range(rounds):
        for index, (name, run) in enumerate(clients.items()):
            target = topic
            if target is None:
                target = f"written-{turn}-{index}"
                broker.create_topic(target, partitions=2)
            share = count // _SLOW_SHARE if name == "kafka-python" else count
            rates[name].append(run(broker.bootstrap_servers, target, share))
    return rates


def show(heading: str, rates: Rates) -> None:
    """Print the rates, and how many times as fast the first is in the same round."""
    ours, first = next(iter(rates.items()))
    print(f"\n{heading}:\n")
    print(f"| client | records/s (median) | lowest – highest | {ours} is so many times as fast |")
    print("|---|---:|---:|---:|")
    for name, found in rates.items():
        ratios = [ours_then / theirs for ours_then, theirs in zip(first, found, strict=True)]
        times = "" if name == ours else f"{median(ratios):.1f}× [{min(ratios):.1f}–{max(ratios):.1f}]"
        print(f"| {name} | {median(found):,.0f} | {min(found):,.0f} – {max(found):,.0f} | {times} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--codec", default="none")
    options = parser.parse_args()
    table = make_table(options.records)
    records = list(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True))
    with Broker(process=True) as broker:
        broker.create_topic("read", partitions=2)
        write_arrow(table, options.codec)(broker.bootstrap_servers, "read", options.records)
        read_arrow(broker.bootstrap_servers, "read", options.records)
        readers = {"poll_arrow": read_arrow, "confluent-kafka": read_confluent, "kafka-python": read_kafka_python}
        what = f"{options.records:,} records of {VALUE_BYTES} bytes, 2 partitions, as tables and one by one"
        show(f"Reading {what}", measure(broker, readers, options.records, options.rounds, "read"))
        writers = {
            "send_arrow": write_arrow(table, options.codec),
            "confluent-kafka": write_confluent(records, options.codec),
            "kafka-python": write_kafka_python(records, options.codec),
        }
        show(f"Writing {what}", measure(broker, writers, options.records, options.rounds, None))


if __name__ == "__main__":
    main()
