"""Delegation tokens in the tree: Kafka's nodes, without the secret."""

import json

import pytest

from tidelog.metadata.changes import ChangeListener
from tidelog.metadata.errors import MalformedNodeError
from tidelog.metadata.tokens import (
    TOKEN_CHANGES,
    decode_token,
    encode_token,
    prepare_token_nodes,
    read_token,
    read_tokens,
    remove_token,
    write_token,
)
from tidelog.security.tokens import DelegationToken
from tidelog.testing.memory_store import MemoryStore, MemoryTree

TOKEN = DelegationToken("id-1", "User:alice", "User:admin", ("User:bob",), 1, 3, 2)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(MemoryTree())
    prepare_token_nodes(made)
    return made


def test_a_node_holds_what_kafka_writes(store: MemoryStore) -> None:
    write_token(store, TOKEN)
    data, _ = store.get("/delegation_token/tokens/id-1")
    assert json.loads(data) == {
        "version": 3,
        "owner": "User:alice",
        "tokenRequester": "User:admin",
        "renewers": ["User:bob"],
        "issueTimestamp": 1,
        "maxTimestamp": 3,
        "expiryTimestamp": 2,
        "tokenId": "id-1",
    }


def test_a_token_of_older_brokers_was_requested_by_its_owner() -> None:
    fields = json.loads(encode_token(TOKEN))
    del fields["tokenRequester"]
    assert decode_token("/x", json.dumps(fields).encode()).requester == "User:alice"


def test_every_change_is_announced(store: MemoryStore) -> None:
    listener = ChangeListener(TOKEN_CHANGES, lambda _event: None, lambda: 0)
    write_token(store, TOKEN)
    write_token(store, TOKEN._replace(expires_ms=3))
    assert read_token(store, "id-1") == TOKEN._replace(expires_ms=3)
    assert list(read_tokens(store)) == [TOKEN._replace(expires_ms=3)]
    remove_token(store, "id-1")
    remove_token(store, "id-1")
    assert read_token(store, "id-1") is None
    assert listener.take(store) == ["id-1", "id-1", "id-1"]


@pytest.mark.parametrize("data", [b"rubbish", b"{}", encode_token(TOKEN).replace(b'["User:bob"]', b"[7]")])
def test_a_node_that_cannot_be_read_is_named(data: bytes) -> None:
    with pytest.raises(MalformedNodeError, match="/delegation_token/tokens/id-1"):
        decode_token("/delegation_token/tokens/id-1", data)
