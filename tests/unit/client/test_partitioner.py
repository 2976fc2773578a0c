"""Keys must land where Kafka's own clients put them, or compaction and joins go wrong silently."""

import pytest

from tidelog.client.partitioner import murmur2, partition_for_key

# From the tests of Apache Kafka's Java client, signed there.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KNOWN)
def test_murmur2_is_kafkas(key):
    assert murmur2(key) == KNOWN[key] & 0xFFFFFFFF


def test_murmur2_agrees_with_another_client_for_every_length():
    kafka_python = pytest.importorskip("kafka.partitioner.default")
    for length in range(40):
        key = bytes(range(200, 200 + length)) if length < 56 else b""
        assert murmur2(key) == kafka_python.murmur2(key) & 0xFFFFFFFF


def test_a_negative_hash_loses_its_sign_bit_and_is_not_negated():
    assert partition_for_key(b"foobar", 1000) == (-790332482 & 0x7FFFFFFF) % 1000
