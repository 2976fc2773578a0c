"""The bytes of subscriptions and assignments, checked against Kafka's own definitions as kio has them."""

from struct import pack

import pytest
from kio.schema.consumer_protocol_assignment import v0 as assignment_v0
from kio.schema.consumer_protocol_assignment import v3 as assignment_v3
from kio.schema.consumer_protocol_subscription import v0 as subscription_v0
from kio.schema.consumer_protocol_subscription import v1 as subscription_v1
from kio.schema.consumer_protocol_subscription import v2 as subscription_v2
from kio.schema.consumer_protocol_subscription import v3 as subscription_v3
from kio.serial import entity_reader

from tidelog.client.aio.consumer.protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_sticky_user_data,
    encode_subscription,
)
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import WireError

SUBSCRIPTIONS = {0: subscription_v0, 1: subscription_v1, 2: subscription_v2, 3: subscription_v3}
OWNED = (TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0))
FULL = Subscription(("orders", "bills"), b"mine", OWNED, 7, "rack-1")


def kio_reads(module, name, data):
    entity = getattr(module, name)
    return entity_reader(entity)(memoryview(data), 0)[0]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_kafka_reads_our_subscriptions(version):
    data = encode_subscription(FULL, version)
    assert data[:2] == pack(">h", version)
    read = kio_reads(SUBSCRIPTIONS[version], "ConsumerProtocolSubscription", data[2:])
    assert list(read.topics) == ["bills", "orders"]
    assert read.user_data == b"mine"
    if version >= 1:
        assert [(each.topic, list(each.partitions)) for each in read.owned_partitions] == [("a", [0, 2]), ("b", [1])]
    if version >= 2:
        assert read.generation_id == 7
    if version >= 3:
        assert read.rack_id == "rack-1"


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_a_subscription_is_read_back_as_far_as_its_version_goes(version):
    read = decode_subscription(encode_subscription(FULL, version), "instance")
    assert read.topics == ("bills", "orders")
    assert read.user_data == b"mine"
    assert set(read.owned) == (set(OWNED) if version >= 1 else set())
    assert read.generation_id == (7 if version >= 2 else -1)
    assert read.rack_id == ("rack-1" if version >= 3 else None)
    assert read.group_instance_id == "instance"


@pytest.mark.parametrize(("version", "module"), [(0, assignment_v0), (3, assignment_v3)])
def test_kafka_reads_our_assignments(version, module):
    data = encode_assignment(Assignment(OWNED, b"note"), version)
    read = kio_reads(module, "ConsumerProtocolAssignment", data[2:])
    assert [(each.topic, list(each.partitions)) for each in read.assigned_partitions] == [("a", [0, 2]), ("b", [1])]
    assert read.user_data == b"note"
    assert decode_assignment(data) == Assignment(tuple(sorted(OWNED)), b"note")


def test_a_newer_version_is_read_as_the_newest_we_know():
    """A client may be newer than us; what it added stands at the end, and is ignored."""
    newer = pack(">h", 9) + encode_subscription(FULL)[2:] + b"something new"
    assert decode_subscription(newer).generation_id == 7


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff\x00\x00", b"\x00\x01\x00\x00\x00\x05"])
def test_nonsense_is_refused(data):
    with pytest.raises(WireError):
        decode_subscription(data)
    with pytest.raises(WireError):
        decode_assignment(data)


def test_sticky_user_data_carries_the_last_assignment():
    data = encode_sticky_user_data(OWNED, 12)
    # Topics and partitions as in Kafka's StickyAssignorUserData version 1: array of (topic, array of int32), int32.
    assert data == (
        pack(">i", 2) + pack(">h1sii", 1, b"a", 2, 0) + pack(">i", 2) + pack(">h1sii", 1, b"b", 1, 1) + pack(">i", 12)
    )
    assert decode_sticky_user_data(data) == (tuple(sorted(OWNED)), 12)


def test_sticky_user_data_of_version_0_has_no_generation():
    data = encode_sticky_user_data(OWNED, 12)[:-4]
    assert decode_sticky_user_data(data) == (tuple(sorted(OWNED)), -1)


@pytest.mark.parametrize("data", [None, b"", b"\x00", b"\x7f\xff\xff\xff"])
def test_sticky_user_data_that_says_nothing_is_no_claim(data):
    assert decode_sticky_user_data(data) == ((), -1)
