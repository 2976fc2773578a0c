"""Nodes as Kafka 3.9 writes them, and as older versions did, word for word."""

import json
from collections.abc import Callable

import pytest

from tidelog.metadata import tree
from tidelog.metadata.errors import MalformedNodeError
from tidelog.metadata.tree import (
    BrokerRegistration,
    Endpoint,
    PartitionState,
    ProducerIdBlock,
    ReplicaAssignment,
    TopicAssignment,
)
from tidelog.wire.primitives import uuid_from_text

TOPIC_ID = "kyZn4rZaQSCBbk06MKfyTg"


def same(ours: bytes, theirs: str) -> bool:
    """Equal as JSON: the order of fields means nothing."""
    return bool(json.loads(ours) == json.loads(theirs))


def test_cluster_id() -> None:
    text = '{"version":"1","id":"WrWqSnYOQ7yAVPl2T2fYYA"}'
    assert same(tree.encode_cluster_id("WrWqSnYOQ7yAVPl2T2fYYA"), text)
    assert tree.decode_cluster_id(text.encode()) == "WrWqSnYOQ7yAVPl2T2fYYA"


def test_controller() -> None:
    text = '{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    assert same(tree.encode_controller(1, 1_700_000_000_000), text)
    assert tree.decode_controller(text.encode()) == 1
    assert tree.decode_controller(b'{"version":1,"brokerid":7,"timestamp":"1500000000000"}') == 7


def test_controller_epoch_is_a_bare_number() -> None:
    assert tree.encode_controller_epoch(12) == b"12"
    assert tree.decode_controller_epoch(b"12") == 12


def test_broker_with_two_listeners_and_a_rack() -> None:
    text = (
        '{"features":{},"listener_security_protocol_map":{"CLIENT":"PLAINTEXT","REPLICATION":"SSL"},'
        '"endpoints":["CLIENT://host1:9092","REPLICATION://[::1]:9093"],"jmx_port":-1,"port":9092,"host":"host1",'
        '"version":5,"timestamp":"1700000000000","rack":"dc1"}'
    )
    broker = BrokerRegistration(
        broker_id=3,
        endpoints=(Endpoint("CLIENT", "host1", 9092), Endpoint("REPLICATION", "::1", 9093, "SSL")),
        rack="dc1",
        timestamp_ms=1_700_000_000_000,
    )
    assert same(tree.encode_broker(broker), text)
    assert tree.decode_broker(3, text.encode()) == broker


def test_broker_without_a_plaintext_listener_has_no_host_for_old_clients() -> None:
    document = json.loads(tree.encode_broker(BrokerRegistration(1, (Endpoint("SSL", "host1", 9093, "SSL"),))))
    assert (document["host"], document["port"]) == (None, -1)
    assert "rack" not in document


@pytest.mark.parametrize(
    "text",
    [
        '{"version":1,"host":"host1","port":9092,"jmx_port":9999,"timestamp":"2233345666"}',
        '{"version":2,"jmx_port":9999,"timestamp":"2233345666","endpoints":["PLAINTEXT://host1:9092"]}',
        '{"version":3,"jmx_port":9999,"timestamp":"2233345666","endpoints":["PLAINTEXT://host1:9092"],"rack":null}',
    ],
)
def test_broker_of_older_versions(text: str) -> None:
    broker = tree.decode_broker(0, text.encode())
    assert broker == BrokerRegistration(0, (Endpoint("PLAINTEXT", "host1", 9092),), None, 2233345666, 9999)


def test_topic() -> None:
    text = (
        f'{{"removing_replicas":{{"1":[1]}},"partitions":{{"0":[1,2],"1":[2,1,3]}},"topic_id":"{TOPIC_ID}",'
        '"adding_replicas":{"1":[3]},"version":3}'
    )
    assignment = TopicAssignment(
        uuid_from_text(TOPIC_ID), (ReplicaAssignment((1, 2)), ReplicaAssignment((2, 1, 3), (3,), (1,)))
    )
    assert same(tree.encode_topic(assignment), text)
    assert tree.decode_topic("t", text.encode()) == assignment


def test_topic_with_more_than_ten_partitions_keeps_their_order() -> None:
    assignment = TopicAssignment(None, tuple(ReplicaAssignment((index,)) for index in range(25)))
    assert tree.decode_topic("t", tree.encode_topic(assignment)) == assignment


def test_topic_from_before_there_were_ids_and_reassignments() -> None:
    assert tree.decode_topic("t", b'{"version":1,"partitions":{"0":[0]}}') == TopicAssignment(
        None, (ReplicaAssignment((0,)),)
    )


def test_partition_state() -> None:
    text = '{"controller_epoch":4,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2]}'
    state = PartitionState(leader=1, leader_epoch=7, isr=(1, 2), controller_epoch=4)
    assert tree.encode_partition_state(state) == text.encode()
    assert tree.decode_partition_state("t", 0, text.encode()) == state


def test_partition_state_after_an_unclean_election() -> None:
    text = '{"controller_epoch":4,"leader":1,"version":1,"leader_epoch":7,"isr":[1],"leader_recovery_state":1}'
    state = PartitionState(1, 7, (1,), 4, tree.LEADER_RECOVERING)
    assert same(tree.encode_partition_state(state), text)
    assert tree.decode_partition_state("t", 0, text.encode()) == state


def test_config() -> None:
    text = '{"version":1,"config":{"retention.ms":"1000","cleanup.policy":"compact,delete"}}'
    overrides = {"retention.ms": "1000", "cleanup.policy": "compact,delete"}
    assert tree.encode_config(overrides) == text.encode()
    assert tree.decode_config("topics", "t", text.encode()) == overrides
    assert tree.decode_config("topics", "t", b"") == {}


def test_config_change() -> None:
    text = '{"version":2,"entity_path":"topics/orders"}'
    assert tree.encode_config_change("topics/orders") == text.encode()
    assert tree.decode_config_change("/config/changes/x", text.encode()) == "topics/orders"
    old = b'{"version":1,"entity_type":"topics","entity_name":"orders"}'
    assert tree.decode_config_change("/config/changes/x", old) == "topics/orders"


def test_producer_id_block() -> None:
    text = '{"version":1,"broker":0,"block_start":"0","block_end":"999"}'
    assert tree.encode_producer_id_block(ProducerIdBlock(0, 0, 999)) == text.encode()
    assert tree.decode_producer_id_block(text.encode()) == ProducerIdBlock(0, 0, 999)


@pytest.mark.parametrize(
    ("decode", "data", "complaint"),
    [
        (tree.decode_cluster_id, b"", "/cluster/id: malformed node: not JSON"),
        (tree.decode_cluster_id, b"\xff", "not JSON"),
        (tree.decode_cluster_id, b"[" * 100_000, "not JSON"),
        (tree.decode_cluster_id, b"[1]", r"a JSON object is expected, not b'\[1\]'"),
        (tree.decode_cluster_id, b"{}", "id is missing"),
        (tree.decode_cluster_id, b'{"id":1}', "id is 1, not of type str"),
        (tree.decode_cluster_id, b'{"id":""}', "the cluster id is empty"),
        (tree.decode_controller, b'{"brokerid":true}', "/controller: .*brokerid is True, not of type int"),
        (tree.decode_controller_epoch, b"one", "/controller_epoch: .*'one', not a number"),
        (tree.decode_controller_epoch, b" 1", "not a number"),
        (lambda data: tree.decode_broker(3, data), b'{"version":0}', "/brokers/ids/3: .*version 0 is not known"),
        (
            lambda data: tree.decode_broker(3, data),
            b'{"version":5,"endpoints":["nowhere"]}',
            "'nowhere' is not an endpoint",
        ),
        (
            lambda data: tree.decode_broker(3, data),
            b'{"version":5,"endpoints":["X://h:1"],"listener_security_protocol_map":{}}',
            "the listener of 'X://h:1' has no security protocol",
        ),
        (
            lambda data: tree.decode_topic("t", data),
            b'{"partitions":{"0":[0],"2":[0]}}',
            "/brokers/topics/t: .*not numbered 0, 1, 2",
        ),
        (lambda data: tree.decode_topic("t", data), b'{"partitions":{}}', "not numbered"),
        (lambda data: tree.decode_topic("t", data), b'{"partitions":{"0":[]}}', "has no replicas"),
        (lambda data: tree.decode_topic("t", data), b'{"partitions":{"0":["a"]}}', "not a list of whole numbers"),
        (lambda data: tree.decode_topic("t", data), b'{"partitions":{"0":[1]},"topic_id":"x"}', "not a uuid"),
        (
            lambda data: tree.decode_partition_state("t", 4, data),
            b'{"leader":1}',
            "/brokers/topics/t/partitions/4/state: .*leader_epoch is missing",
        ),
        (
            lambda data: tree.decode_config("topics", "t", data),
            b'{"config":{"retention.ms":1}}',
            "/config/topics/t: .*the value of retention.ms is 1, not text",
        ),
        (
            tree.decode_producer_id_block,
            b'{"broker":0,"block_start":"1000","block_end":"999"}',
            "/latest_producer_id_block: .*the block from 1000 to 999",
        ),
        (tree.decode_producer_id_block, b'{"broker":0,"block_start":"1e3","block_end":"999"}', "'1e3', not a number"),
    ],
)
def test_what_does_not_belong_in_a_node_is_said_with_its_path(
    decode: Callable[[bytes], object], data: bytes, complaint: str
) -> None:
    with pytest.raises(MalformedNodeError, match=complaint):
        decode(data)


def test_a_reassignment_under_way_keeps_where_it_comes_from() -> None:
    assignment = ReplicaAssignment((1, 2, 3)).reassign_to((3, 4, 2))
    assert assignment == ReplicaAssignment((3, 4, 2, 1), adding=(4,), removing=(1,))
    assert assignment.origin == (3, 2, 1), "the order from before is lost, as in Kafka"
    assert assignment.target == (3, 4, 2)
    assert assignment.is_being_reassigned
    assert assignment.reassign_to((5,)) == ReplicaAssignment((5, 3, 2, 1), adding=(5,), removing=(3, 2, 1))
    assert assignment.reassign_to(assignment.origin) == ReplicaAssignment((3, 2, 1))
    assert assignment.without(4) == ReplicaAssignment((3, 2, 1), removing=(1,))


def test_features() -> None:
    assert same(tree.encode_features(), '{"features":{},"version":2,"status":1}')


def test_requests_to_move_partitions() -> None:
    text = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,1]}]}'
    assert same(tree.encode_reassignments({("orders", 0): (3, 1)}), text)
    assert tree.decode_reassignments(text.encode()) == {("orders", 0): (3, 1)}


def test_partitions_in_notices_and_requests() -> None:
    text = '{"version":1,"partitions":[{"topic":"orders","partition":0},{"topic":"other","partition":3}]}'
    assert same(tree.encode_partitions([("orders", 0), ("other", 3)]), text)
    path = "/isr_change_notification/isr_change_0000000000"
    assert tree.decode_partitions(path, text.encode()) == [("orders", 0), ("other", 3)]
    for broken in ('{"partitions":[3]}', '{"partitions":[{"topic":"orders"}]}', "[]", "{}"):
        with pytest.raises(MalformedNodeError, match=path):
            tree.decode_partitions(path, broken.encode())


def test_a_failed_log_directory() -> None:
    text = '{"version":1,"broker":4,"event":1}'
    assert same(tree.encode_log_dir_event(4), text)
    assert tree.decode_log_dir_event("/log_dir_event_notification/log_dir_event_0000000000", text.encode()) == 4
