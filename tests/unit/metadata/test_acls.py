"""ACLs in the tree: Kafka's nodes, written against the version that was read and announced to the other brokers."""

import json

import pytest

from tidelog.metadata.acls import (
    EXTENDED_CHANGES,
    LITERAL_CHANGES,
    all_entries,
    change_entries,
    decode_entries,
    encode_entries,
    prepare_acl_nodes,
    read_entries,
)
from tidelog.metadata.changes import ChangeListener
from tidelog.metadata.errors import MalformedNodeError
from tidelog.security.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from tidelog.testing.memory_store import MemoryStore, MemoryTree

READ = AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW)
WRITE = AccessControlEntry("User:bob", "10.0.0.1", AclOperation.IDEMPOTENT_WRITE, AclPermissionType.DENY)
ORDERS = ResourcePattern(AclResourceType.TOPIC, "orders")
PREFIXED = ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "tx-", PatternType.PREFIXED)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(MemoryTree())
    prepare_acl_nodes(made)
    return made


def test_a_node_holds_what_kafka_writes(store: MemoryStore) -> None:
    change_entries(store, ORDERS, lambda _: [READ, WRITE])
    data, _ = store.get("/kafka-acl/Topic/orders")
    assert json.loads(data) == {
        "version": 1,
        "acls": [
            {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"},
            {"principal": "User:bob", "permissionType": "Deny", "operation": "IdempotentWrite", "host": "10.0.0.1"},
        ],
    }


def test_prefixes_stand_in_the_extended_tree(store: MemoryStore) -> None:
    change_entries(store, PREFIXED, lambda _: [READ])
    assert store.exists("/kafka-acl-extended/prefixed/TransactionalId/tx-") is not None
    assert dict(all_entries(store)) == {PREFIXED: (READ,)}


def test_each_change_is_announced_to_the_other_brokers(store: MemoryStore) -> None:
    literal = ChangeListener(LITERAL_CHANGES, lambda _event: None, lambda: 0)
    extended = ChangeListener(EXTENDED_CHANGES, lambda _event: None, lambda: 0)
    change_entries(store, ORDERS, lambda _: [READ])
    change_entries(store, PREFIXED, lambda _: [READ])
    assert store.get("/kafka-acl-changes/acl_changes_0000000000")[0] == b"TOPIC:orders"
    assert literal.take(store) == [ORDERS]
    assert extended.take(store) == [PREFIXED]
    change_entries(store, ORDERS, lambda before: before)
    assert literal.take(store) == []


def test_a_resource_without_entries_has_no_node(store: MemoryStore) -> None:
    change_entries(store, ORDERS, lambda _: [READ])
    change_entries(store, ORDERS, lambda _: [])
    assert store.exists("/kafka-acl/Topic/orders") is None
    assert read_entries(store, ORDERS) == ()


def test_a_change_sees_what_another_broker_wrote_meanwhile(store: MemoryStore) -> None:
    calls = 0

    def add(before: tuple[AccessControlEntry, ...]) -> list[AccessControlEntry]:
        nonlocal calls
        calls += 1
        if calls == 1:
            change_entries(store, ORDERS, lambda now: [*now, READ])
        return [*before, WRITE]

    assert change_entries(store, ORDERS, add) == (READ, WRITE)
    assert calls == 2


def test_an_entry_stands_in_a_node_once(store: MemoryStore) -> None:
    assert change_entries(store, ORDERS, lambda _: [READ, READ]) == (READ,)


@pytest.mark.parametrize(
    "data",
    [
        b"not json",
        b'{"version":1}',
        b'{"version":1,"acls":[7]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Fly","host":"*"}]}',
    ],
)
def test_a_node_that_cannot_be_read_is_named(data: bytes) -> None:
    with pytest.raises(MalformedNodeError, match="/kafka-acl/Topic/orders"):
        decode_entries("/kafka-acl/Topic/orders", data)


def test_entries_survive_the_tree() -> None:
    assert decode_entries("/x", encode_entries([READ, WRITE])) == (READ, WRITE)


@pytest.mark.parametrize(
    ("data", "resource_type"),
    [
        (b"TOPIC:orders", AclResourceType.TOPIC),
        (b"TRANSACTIONAL_ID:orders", AclResourceType.TRANSACTIONAL_ID),
        (b"TransactionalId:orders", AclResourceType.TRANSACTIONAL_ID),
    ],
)
def test_a_literal_change_is_announced_as_kafka_does(data: bytes, resource_type: AclResourceType) -> None:
    """The last form is that of nodes with entries, which Tidelog once used for announcements as well."""
    assert LITERAL_CHANGES.decode("/kafka-acl-changes/acl_changes_0000000001", data) == ResourcePattern(
        resource_type, "orders"
    )
