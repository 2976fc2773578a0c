"""Quotas in the tree: Kafka's nodes, beside whatever else an entity has there."""

import pytest

from tidelog.metadata.client_quotas import QuotaNode, alter_quotas, read_quota_nodes
from tidelog.metadata.configs import ConfigEntity, read_overrides, replace_overrides
from tidelog.metadata.registration import prepare_tree
from tidelog.testing.memory_store import MemoryStore, MemoryTree

NODES = {
    QuotaNode(user="alice"): "/config/users/alice",
    QuotaNode(user="a/b c"): "/config/users/a%2Fb%20c",
    QuotaNode(user="<default>"): "/config/users/<default>",
    QuotaNode(client_id="app"): "/config/clients/app",
    QuotaNode(user="alice", client_id="<default>"): "/config/users/alice/clients/<default>",
    QuotaNode(user="<default>", client_id="app"): "/config/users/<default>/clients/app",
    QuotaNode(ip="10.0.0.1"): "/config/ips/10.0.0.1",
}


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore(MemoryTree())
    prepare_tree(made)
    return made


def accept(_settings: object) -> None:
    pass


@pytest.mark.parametrize("node", NODES)
def test_an_entity_has_the_node_that_kafka_gives_it(node: QuotaNode, store: MemoryStore) -> None:
    alter_quotas(store, node, {"producer_byte_rate": "1024.0"}, accept, validate_only=False)
    assert node.entity.path == NODES[node]
    assert store.exists(NODES[node]) is not None
    assert QuotaNode.at(NODES[node].removeprefix("/config/")) == node
    assert (node, {"producer_byte_rate": "1024.0"}) in list(read_quota_nodes(store))


def test_other_settings_of_an_entity_stay(store: MemoryStore) -> None:
    alice = ConfigEntity("users", "alice")
    replace_overrides(store, alice, {"SCRAM-SHA-256": "secret"}, accept)
    alter_quotas(store, QuotaNode(user="alice"), {"consumer_byte_rate": "1.0"}, accept, validate_only=False)
    alter_quotas(
        store,
        QuotaNode(user="alice"),
        {"consumer_byte_rate": None, "request_percentage": "5.0"},
        accept,
        validate_only=False,
    )
    assert read_overrides(store, alice) == {"SCRAM-SHA-256": "secret", "request_percentage": "5.0"}


def test_a_validation_leaves_no_trace(store: MemoryStore) -> None:
    alter_quotas(store, QuotaNode("bob", "app"), {"request_percentage": "5.0"}, accept, validate_only=True)
    assert store.exists("/config/users/bob") is None


def test_entities_of_topics_and_brokers_have_no_quotas() -> None:
    assert QuotaNode.at("topics/orders") is None
    assert QuotaNode.at("brokers/1") is None
