"""Nodes round-trip, and no bytes make a decoder raise anything but `MalformedNodeError`."""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tidelog.metadata import tree
from tidelog.metadata.errors import MalformedNodeError

ids = st.integers(0, 2**31 - 1)
replicas = st.lists(ids, min_size=1, max_size=4).map(tuple)
names = st.text(st.characters(min_codepoint=48, max_codepoint=90, exclude_characters=":"), min_size=1, max_size=8)
assignments = st.builds(
    tree.TopicAssignment,
    st.none() | st.binary(min_size=16, max_size=16),
    st.lists(st.builds(tree.ReplicaAssignment, replicas, replicas, replicas), min_size=1, max_size=15).map(tuple),
)
states = st.builds(tree.PartitionState, ids, ids, replicas, ids, st.sampled_from([0, 1]))
endpoints = st.builds(
    tree.Endpoint, names, st.sampled_from(["h", "10.0.0.1", "::1"]), st.integers(0, 65535), st.just("SSL")
)
registrations = st.builds(
    tree.BrokerRegistration,
    st.just(5),
    st.lists(endpoints, min_size=1, max_size=3, unique_by=lambda endpoint: endpoint.listener).map(tuple),
    st.none() | st.text(max_size=5),
    st.integers(0, 2**62),
    st.integers(-1, 65535),
)

DECODERS: dict[str, Callable[[bytes], object]] = {
    "cluster id": tree.decode_cluster_id,
    "controller": tree.decode_controller,
    "controller epoch": tree.decode_controller_epoch,
    "broker": lambda data: tree.decode_broker(1, data),
    "topic": lambda data: tree.decode_topic("t", data),
    "partition state": lambda data: tree.decode_partition_state("t", 0, data),
    "config": lambda data: tree.decode_config("topics", "t", data),
    "config change": lambda data: tree.decode_config_change("/config/changes/x", data),
    "producer id block": tree.decode_producer_id_block,
}
FIELDS = [
    "version", "id", "brokerid", "endpoints", "host", "port", "rack", "timestamp", "listener_security_protocol_map",
    "partitions", "adding_replicas", "topic_id", "leader", "leader_epoch", "isr", "controller_epoch", "config",
    "entity_path", "broker", "block_start", "block_end",
]  # fmt: skip
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["X://h:1", "0", "-1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["0", "1", "X"]) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
documents = st.dictionaries(st.sampled_from(FIELDS), values, max_size=8).map(lambda fields: json.dumps(fields).encode())


@settings(deadline=None, max_examples=examples(60))
@given(assignment=assignments)
def test_topics_round_trip(assignment: tree.TopicAssignment) -> None:
    assert tree.decode_topic("t", tree.encode_topic(assignment)) == assignment


@settings(deadline=None, max_examples=examples(60))
@given(state=states)
def test_partition_states_round_trip(state: tree.PartitionState) -> None:
    assert tree.decode_partition_state("t", 0, tree.encode_partition_state(state)) == state


@settings(deadline=None, max_examples=examples(60))
@given(registration=registrations)
def test_brokers_round_trip(registration: tree.BrokerRegistration) -> None:
    assert tree.decode_broker(5, tree.encode_broker(registration)) == registration


@settings(deadline=None, max_examples=examples(60))
@given(overrides=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=5))
def test_configs_round_trip(overrides: dict[str, str]) -> None:
    assert tree.decode_config("topics", "t", tree.encode_config(overrides)) == overrides


@pytest.mark.parametrize("kind", DECODERS)
@settings(deadline=None, max_examples=examples(80))
@given(data=st.one_of(st.binary(max_size=40), documents))
def test_no_bytes_make_a_decoder_fail_in_any_other_way(kind: str, data: bytes) -> None:
    with suppress(MalformedNodeError):
        DECODERS[kind](data)
