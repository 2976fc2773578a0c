"""What the image and the tree show of the metadata log."""

from __future__ import annotations

import pytest

from tests.unit.metadata.quorum.test_state import BROKER, ID, PARTITION, TOPIC, state_of
from tidelog.metadata import paths
from tidelog.metadata.acls import prepare_acl_nodes, read_entries
from tidelog.metadata.client_quotas import QuotaNode
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.metadata.entities import GROUPS, entity_of
from tidelog.metadata.features import read_finalised
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.memory_tree import MemoryStore
from tidelog.metadata.quorum.projection import (
    QUORUM_FEATURES,
    UnsupportedFeatureError,
    apply_brokers,
    apply_topics,
    check_features,
    partitions_on,
    project,
    supported_levels,
    writes,
)
from tidelog.metadata.quorum.records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    UserScramCredentialRecord,
)
from tidelog.metadata.quorum.state import MetadataState, Touched
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.tokens import prepare_token_nodes, read_token
from tidelog.metadata.users import read_users
from tidelog.security.acls import AccessControlEntry, AclOperation, AclPermissionType, AclResourceType, ResourcePattern
from tidelog.security.scram import parse_credential
from tidelog.wire.schema import Message

UNFENCED = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, fenced=-1)


def shown(image: ClusterImage, state: MetadataState, touched: Touched) -> list[str]:
    """Apply all of it; the names of topics that are gone."""
    apply_brokers(image, state, touched.brokers)
    steps = apply_topics(image, state, touched)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            gone: list[str] = end.value
            return gone


def changed(state: MetadataState, image: ClusterImage, record: Message) -> list[str]:
    touched = Touched()
    state.replay(record, touched)
    return shown(image, state, touched)


def test_a_broker_is_shown_while_it_is_not_fenced() -> None:
    state, image = state_of(BROKER), ClusterImage("c")
    shown(image, state, state.everything())
    assert image.broker_ids() == []
    changed(state, image, UNFENCED)
    broker = image.broker(1)
    assert broker is not None
    assert (broker.epoch, broker.rack, broker.endpoints["INSIDE"].port) == (20, "r", 9092)
    changed(state, image, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, fenced=1))
    assert image.broker_ids() == []


def test_topics_are_shown_changed_and_taken_away() -> None:
    config = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1")
    state, image = state_of(BROKER, UNFENCED, TOPIC, PARTITION, config), ClusterImage("c")
    shown(image, state, state.everything())
    partition = image.partition("t", 0)
    assert partition is not None
    assert (partition.leader_id, partition.leader_epoch, partition.isr, partition.state_version) == (1, 4, (1, 2), 9)
    assert partition.offline_replicas == (2,)
    assert image.overrides("t") == {"retention.ms": "1"}
    changed(state, image, PartitionChangeRecord(partition_id=0, topic_id=ID, isr=[1], leader=1))
    partition = image.partition("t", 0)
    assert partition is not None
    assert (partition.leader_epoch, partition.isr) == (5, (1,))
    assert changed(state, image, RemoveTopicRecord(topic_id=ID)) == ["t"]
    assert image.topic("t") is None


def test_a_topic_grows_and_partitions_behind_a_gap_are_on_their_way() -> None:
    state, image = state_of(TOPIC, PARTITION), ClusterImage("c")
    shown(image, state, state.everything())
    changed(state, image, PartitionRecord(partition_id=2, topic_id=ID, replicas=[1], isr=[1], leader=1))
    assert image.partition_count("t") == 1
    changed(state, image, PartitionRecord(partition_id=1, topic_id=ID, replicas=[1], isr=[1], leader=1))
    assert image.partition_count("t") == 3


def test_a_replica_in_a_directory_that_its_broker_lost_is_offline() -> None:
    state, image = state_of(BROKER, UNFENCED, TOPIC, PARTITION), ClusterImage("c")
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, log_dirs=[b"e" * 16])
    state.replay(change, Touched())
    assert partitions_on(state, {1}) == {(ID, 0)}
    assert partitions_on(state, {7}) == set()
    shown(image, state, state.everything())
    partition = image.partition("t", 0)
    assert partition is not None
    assert partition.failed_replicas == (1,)


@pytest.fixture
def store() -> MemoryStore:
    found = MemoryStore()
    prepare_tree(found)
    prepare_acl_nodes(found)
    prepare_token_nodes(found)
    return found


def written(store: MemoryStore, state: MetadataState, *records: Message) -> None:
    touched = Touched()
    for record in records:
        state.replay(record, touched)
    project(store, writes(state, touched))


def test_settings_stand_where_they_stand_in_zookeeper_and_are_announced(store: MemoryStore) -> None:
    state = MetadataState()
    written(
        store,
        state,
        ConfigRecord(resource_type=2, resource_name="t", name="a", value="1"),
        ConfigRecord(resource_type=4, resource_name="", name="b", value="2"),
        ConfigRecord(resource_type=4, resource_name="7", name="c", value="3"),
        ConfigRecord(resource_type=32, resource_name="g/h", name="d", value="4"),
    )
    assert read_overrides(store, ConfigEntity("topics", "t")) == {"a": "1"}
    assert read_overrides(store, ConfigEntity("brokers", paths.DEFAULT_ENTITY)) == {"b": "2"}
    assert read_overrides(store, ConfigEntity("brokers", "7")) == {"c": "3"}
    assert read_overrides(store, entity_of(GROUPS, "g/h")) == {"d": "4"}
    assert len(store.children(paths.CONFIG_CHANGES)) == 4
    written(store, state, ConfigRecord(resource_type=2, resource_name="t", name="a", value=None))
    assert read_overrides(store, ConfigEntity("topics", "t")) == {}


def test_a_user_has_quotas_and_credentials_in_one_node(store: MemoryStore) -> None:
    credential = UserScramCredentialRecord(
        name="ü", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    user, client = (
        EntityData(entity_type="user", entity_name="ü"),
        EntityData(entity_type="client-id", entity_name=None),
    )
    written(
        store,
        MetadataState(),
        credential,
        ClientQuotaRecord(entity=[user], key="producer_byte_rate", value=1024.0),
        ClientQuotaRecord(entity=[user, client], key="consumer_byte_rate", value=2.0),
    )
    settings = read_users(store)["ü"]
    assert settings["producer_byte_rate"] == "1024.0"
    found = parse_credential(settings["SCRAM-SHA-256"])
    assert (found.salt, found.stored_key, found.server_key, found.iterations) == (b"s", b"k", b"v", 4096)
    node = QuotaNode(user="ü", client_id=paths.DEFAULT_ENTITY)
    assert read_overrides(store, node.entity) == {"consumer_byte_rate": "2.0"}


def test_entries_tokens_and_levels_come_and_go(store: MemoryStore) -> None:
    state = MetadataState()
    entry = AccessControlEntryRecord(
        id=ID, resource_type=2, resource_name="t", pattern_type=3, principal="User:u", host="*", operation=3
    )
    entry.permission_type = 3
    written(
        store,
        state,
        entry,
        DelegationTokenRecord(token_id="k", owner="User:u", requester="User:u", expiration_timestamp=9),
        FeatureLevelRecord(name="share.version", feature_level=1),
        FeatureLevelRecord(name="metadata.version", feature_level=25),
    )
    resource = ResourcePattern(AclResourceType.TOPIC, "t")
    expected = AccessControlEntry("User:u", "*", AclOperation.READ, AclPermissionType.ALLOW)
    assert read_entries(store, resource) == (expected,)
    token = read_token(store, "k")
    assert token is not None
    assert token.expires_ms == 9
    finalised = read_finalised(store)
    assert (finalised.level("share.version"), finalised.level("group.version")) == (1, 0)
    written(store, state, RemoveAccessControlEntryRecord(id=ID), RemoveDelegationTokenRecord(token_id="k"))
    assert read_entries(store, resource) == ()
    assert read_token(store, "k") is None


def test_a_level_that_is_not_known_is_refused_with_what_to_do() -> None:
    check_features(state_of(FeatureLevelRecord(name="metadata.version", feature_level=25)))
    for name, level in (("metadata.version", 99), ("metadata.version", 1), ("no.such.version", 1)):
        with pytest.raises(UnsupportedFeatureError, match=name):
            check_features(state_of(FeatureLevelRecord(name=name, feature_level=level)))
    assert QUORUM_FEATURES.items() <= supported_levels().items()
