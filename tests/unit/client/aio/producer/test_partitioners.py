import zlib
from functools import partial

import pytest

from tests.unit.client.aio.producer.parts import Bench
from tidelog.client.aio.producer.partitioners import (
    ConsistentRandomPartitioner,
    Murmur2RandomPartitioner,
    RoundRobinPartitioner,
    choose_sticky,
    own_partitioner,
)
from tidelog.client.errors import ClientConfigError
from tidelog.client.partitioner import partition_for_key


def test_a_function_an_object_and_a_class_all_will_do() -> None:
    assert own_partitioner(None) is None
    for given in (
        lambda *_: 3,
        type("Own", (), {"partition": lambda self, *_: 3}),
        type("Own", (), {"partition": lambda self, *_: 3})(),
    ):
        choose = own_partitioner(given)
        assert choose is not None
        assert choose("topic", None, None, 5) == 3
    with pytest.raises(ClientConfigError, match=r"partitioner\.class=7"):
        own_partitioner(7)


def test_round_robin_goes_round_each_topic() -> None:
    robin = RoundRobinPartitioner()
    assert [robin.partition("a", b"k", None, 3) for _ in range(4)] == [0, 1, 2, 0]
    assert robin.partition("b", None, None, 3) == 0
    assert robin.partition("a", None, None, 1) == 0, "partitions may become fewer"


def test_keys_go_as_librdkafka_and_as_java_put_them() -> None:
    assert ConsistentRandomPartitioner().partition("t", b"key", None, 7) == zlib.crc32(b"key") % 7
    assert Murmur2RandomPartitioner().partition("t", b"key", None, 7) == partition_for_key(b"key", 7)
    assert 0 <= ConsistentRandomPartitioner().partition("t", None, None, 7) < 7
    assert 0 <= Murmur2RandomPartitioner().partition("t", None, None, 7) < 7


def test_only_partitions_with_a_leader_are_chosen() -> None:
    bench = Bench(-1, 1, -1)
    chosen = {choose_sticky(bench.topic_queue, is_adaptive=False).partition for _ in range(20)}
    assert chosen == {1}
    bench = Bench(-1, -1)
    assert {choose_sticky(bench.topic_queue, is_adaptive=False).partition for _ in range(50)} == {0, 1}


def test_long_queues_are_chosen_less_often() -> None:
    bench = Bench(1, 1, batch_size=50)
    for _ in range(4):
        bench.add(bytes(30), partition=0)
    # Weights are 1 for the long queue and 5 for the empty one.
    chosen = [
        choose_sticky(bench.topic_queue, is_adaptive=True, random_unit=partial(float, n / 60)).partition
        for n in range(60)
    ]
    assert chosen.count(0) == 10
    assert chosen.count(1) == 50
    assert choose_sticky(bench.topic_queue, is_adaptive=False, random_unit=lambda: 0.4).partition == 0
