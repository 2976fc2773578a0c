"""What the tests of pipelines share: topics filled, read back and checked as multisets."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from tidelog.client import Admin, ConsumerRecord, NewTopic, Producer, TopicPartition
from tidelog.client.aio.admin.types import LATEST
from tidelog.client.cluster import Cluster
from tidelog.client.retry.headers import Trail, decode
from tidelog.wire.errors import ApiError


def make_topics(servers: str, **partitions: int) -> None:
    """Topics by name; underscores stand for dots."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name.replace("_", "."), count) for name, count in partitions.items()])


def send_orders(servers: str, topic: str, ids: Iterable[int], keys: int) -> None:
    """Orders `{"id": 7}` whose keys repeat."""
    with Producer(bootstrap_servers=servers) as producer:
        for number in ids:
            producer.send(
                topic, json.dumps({"id": number}).encode(), f"k{number % keys}".encode(), headers=[("n", b"1")]
            )
        producer.flush()


def committed(servers: str, topic: str) -> list[ConsumerRecord[bytes, bytes]]:
    """Every committed record, partition after partition; none if there is no such topic."""
    with Cluster(bootstrap_servers=servers) as cluster:
        try:
            partitions = [TopicPartition(topic, each) for each in range(cluster.partition_count(topic))]
        except ApiError:
            return []
        ends = cluster.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
        reading = cluster.read(
            dict.fromkeys(partitions, 0), {each: place.offset for each, place in ends.items()}, read_committed=True
        )
        return sorted(reading, key=lambda each: (each.partition, each.offset))


def ids(records: Iterable[ConsumerRecord[bytes, bytes]]) -> list[int]:
    """The orders' numbers."""
    return [json.loads(bytes(record.value or b""))["id"] for record in records]


def trails(records: Iterable[ConsumerRecord[bytes, bytes]]) -> dict[int, Trail]:
    """What the headers of dead letters say, by order."""
    found = {}
    for record in records:
        trail = decode(record.headers)
        assert trail is not None
        found[json.loads(bytes(record.value or b""))["id"]] = trail
    return found


def assert_each_once(output: list[int], dead: list[int], sent: Iterable[int], dying: set[int]) -> None:
    """Every order is in the output or among the dead letters, once, and in the right one of the two."""
    assert Counter(output) == Counter(number for number in sent if number not in dying)
    assert Counter(dead) == Counter(dying)


def wait_for(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Until `condition` holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        time.sleep(0.3)


def forget_last_commit(checkpoint: Path) -> None:
    """As if Spark had died after the sink's commit and before its own: the last batch will be done again."""
    last = max(
        (each for each in (checkpoint / "commits").iterdir() if each.name.isdigit()), key=lambda each: int(each.name)
    )
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
