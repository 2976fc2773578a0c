"""What each kind of record does to the state of the cluster."""

from typing import Any

import pytest

from tidelog.metadata.quorum.frames import MetadataRecordError
from tidelog.metadata.quorum.records import (
    RECORDS,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    DelegationTokenRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from tidelog.metadata.quorum.state import _REPLAYS, MetadataState, QuorumPartition, Touched
from tidelog.metadata.tree import Endpoint
from tidelog.wire.schema import Message

ID = b"t" * 16
DIRECTORY = b"d" * 16
TOPIC = TopicRecord(name="t", topic_id=ID)
PARTITION = PartitionRecord(
    partition_id=0,
    topic_id=ID,
    replicas=[1, 2],
    isr=[1, 2],
    leader=1,
    leader_epoch=4,
    partition_epoch=9,
    directories=[DIRECTORY, DIRECTORY],
)
BROKER = RegisterBrokerRecord(
    broker_id=1,
    broker_epoch=20,
    incarnation_id=b"i" * 16,
    end_points=[BrokerEndpoint(name="INSIDE", host="h", port=9092, security_protocol=1)],
    features=[BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
    rack="r",
    log_dirs=[DIRECTORY],
)


def state_of(*records: Message) -> MetadataState:
    state = MetadataState()
    for record in records:
        state.replay(record, Touched())
    return state


def touched_by(state: MetadataState, record: Message) -> Touched:
    touched = Touched()
    state.replay(record, touched)
    return touched


def test_every_kind_but_those_of_transactions_has_an_effect() -> None:
    assert set(RECORDS.values()) - set(_REPLAYS) == {
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
    }


def test_a_broker_is_fenced_until_a_record_unfences_it() -> None:
    state = state_of(BROKER)
    broker = state.brokers[1]
    assert broker.endpoints == (Endpoint("INSIDE", "h", 9092, "SSL"),)
    assert (broker.epoch, broker.rack, broker.log_dirs) == (20, "r", (DIRECTORY,))
    assert broker.features == {"metadata.version": (7, 30)}
    assert broker.is_fenced
    assert not broker.is_active
    touched = touched_by(state, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, fenced=-1))
    assert touched.brokers == {1}
    assert state.brokers[1].is_active


def test_a_broker_that_stops_is_shown_and_not_active() -> None:
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, fenced=-1, in_controlled_shutdown=1)
    broker = state_of(BROKER, change).brokers[1]
    assert not broker.is_fenced
    assert not broker.is_active


def test_a_change_without_directories_leaves_them() -> None:
    state = state_of(BROKER, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, fenced=-1))
    assert state.brokers[1].log_dirs == (DIRECTORY,)
    state.replay(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=20, log_dirs=[b"e" * 16]), Touched())
    assert state.brokers[1].log_dirs == (b"e" * 16,)


def test_records_from_before_changes_fence_and_unfence() -> None:
    state = state_of(BROKER, UnfenceBrokerRecord(id=1, epoch=20))
    assert not state.brokers[1].is_fenced
    state.replay(FenceBrokerRecord(id=1, epoch=20), Touched())
    assert state.brokers[1].is_fenced


def test_a_broker_is_struck_off() -> None:
    assert not state_of(BROKER, UnregisterBrokerRecord(broker_id=1, broker_epoch=20)).brokers


@pytest.mark.parametrize(
    "record",
    [
        UnregisterBrokerRecord(broker_id=1, broker_epoch=19),
        UnregisterBrokerRecord(broker_id=7, broker_epoch=20),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=21),
        PARTITION,
        RemoveTopicRecord(topic_id=ID),
        RemoveAccessControlEntryRecord(id=ID),
    ],
)
def test_a_record_about_what_is_not_there_is_an_error(record: Message) -> None:
    with pytest.raises(MetadataRecordError):
        state_of(BROKER).replay(record, Touched())


def test_a_controller_says_where_it_listens() -> None:
    endpoint = ControllerEndpoint(name="CONTROLLER", host="c", port=9093)
    state = state_of(RegisterControllerRecord(controller_id=3000, end_points=[endpoint]))
    assert state.controllers == {3000: (Endpoint("CONTROLLER", "c", 9093),)}


def test_a_partition_is_as_its_record_says() -> None:
    partition = state_of(TOPIC, PARTITION).topics[ID].partitions[0]
    assert partition == QuorumPartition((1, 2), (1, 2), 1, 4, 9, directories=(DIRECTORY, DIRECTORY))
    assert partition.directory_of(2) == DIRECTORY
    assert partition.directory_of(3) != DIRECTORY


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"isr": [1]}, (1, 4, (1,))),
        ({"leader": 2}, (2, 5, (1, 2))),
        ({"leader": 1}, (1, 5, (1, 2))),
        ({"leader": -1, "isr": []}, (-1, 5, ())),
    ],
)
def test_a_change_has_the_next_partition_epoch_and_one_of_the_leader_the_next_leader_epoch(
    change: dict[str, Any], expected: tuple[object, ...]
) -> None:
    state = state_of(TOPIC, PARTITION)
    touched = touched_by(state, PartitionChangeRecord(partition_id=0, topic_id=ID, **change))
    partition = state.topics[ID].partitions[0]
    assert (partition.leader_id, partition.leader_epoch, partition.isr) == expected
    assert partition.partition_epoch == 10
    assert touched.partitions == {(ID, 0)}
    assert touched.topics == {ID: "t"}


def test_a_change_replaces_what_it_names_and_nothing_else() -> None:
    change = PartitionChangeRecord(
        partition_id=0,
        topic_id=ID,
        replicas=[1, 2, 3],
        adding_replicas=[3],
        leader_recovery_state=1,
        directories=[DIRECTORY] * 3,
        eligible_leader_replicas=[2],
        last_known_elr=[3],
    )
    partition = state_of(TOPIC, PARTITION, change).topics[ID].partitions[0]
    assert partition == QuorumPartition((1, 2, 3), (1, 2), 1, 4, 10, (3,), (), 1, (DIRECTORY,) * 3, (2,), (3,))
    cleared = state_of(TOPIC, PARTITION, change, ClearElrRecord(topic_name="t")).topics[ID].partitions[0]
    assert (cleared.eligible_leaders, cleared.last_known_eligible) == ((), ())


def test_a_deleted_topic_takes_its_partitions_and_settings_with_it() -> None:
    config = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1")
    state = state_of(TOPIC, PARTITION, config)
    touched = touched_by(state, RemoveTopicRecord(topic_id=ID))
    assert (state.topics, state.topic_ids, state.configs) == ({}, {}, {})
    assert (touched.topics, touched.partitions, touched.configs) == ({ID: "t"}, {(ID, 0)}, {(2, "t")})


def test_a_setting_without_value_is_removed() -> None:
    state = state_of(ConfigRecord(resource_type=4, resource_name="", name="a", value="1"))
    assert state.configs == {(4, ""): {"a": "1"}}
    touched = touched_by(state, ConfigRecord(resource_type=4, resource_name="", name="a", value=None))
    assert state.configs == {}
    assert touched.configs == {(4, "")}


def test_the_level_0_removes_a_feature() -> None:
    state = state_of(FeatureLevelRecord(name="share.version", feature_level=1))
    assert state.features == {"share.version": 1}
    assert touched_by(state, FeatureLevelRecord(name="share.version", feature_level=0)).features
    assert state.features == {}


def test_quotas_belong_to_an_entity_in_whatever_order_it_is_named() -> None:
    user = EntityData(entity_type="user", entity_name="u")
    everyone = EntityData(entity_type="client-id", entity_name=None)
    state = state_of(
        ClientQuotaRecord(entity=[user, everyone], key="producer_byte_rate", value=1.5),
        ClientQuotaRecord(entity=[everyone, user], key="consumer_byte_rate", value=2.5),
    )
    entity = (("client-id", None), ("user", "u"))
    assert state.quotas == {entity: {"producer_byte_rate": 1.5, "consumer_byte_rate": 2.5}}
    removal = ClientQuotaRecord(entity=[user, everyone], key="producer_byte_rate", remove=True)
    assert touched_by(state, removal).quotas == {entity}
    assert state.quotas == {entity: {"consumer_byte_rate": 2.5}}


def test_a_user_has_a_credential_for_each_mechanism() -> None:
    one, two = (UserScramCredentialRecord(name="u", mechanism=mechanism, salt=b"s") for mechanism in (1, 2))
    state = state_of(one, two)
    assert state.scram == {"u": {1: one, 2: two}}
    assert touched_by(state, RemoveUserScramCredentialRecord(name="u", mechanism=1)).users == {"u"}
    assert state.scram == {"u": {2: two}}


def test_entries_are_found_by_their_resource() -> None:
    entry = AccessControlEntryRecord(id=ID, resource_type=2, resource_name="t", pattern_type=3, principal="User:u")
    state = state_of(entry)
    assert list(state.entries_of((2, "t", 3))) == [entry]
    assert list(state.entries_of((2, "t", 4))) == []
    assert touched_by(state, RemoveAccessControlEntryRecord(id=ID)).acls == {(2, "t", 3)}
    assert state.acls == {}


def test_tokens_and_producer_ids_are_kept() -> None:
    token = DelegationTokenRecord(token_id="k", owner="User:u")
    state = state_of(token, ProducerIdsRecord(broker_id=1, broker_epoch=20, next_producer_id=3000))
    assert state.tokens == {"k": token}
    assert state.next_producer_id == 3000
    assert touched_by(state, RemoveDelegationTokenRecord(token_id="k")).tokens == {"k"}
    assert state.tokens == {}


def test_what_changes_nothing_touches_nothing() -> None:
    assert not touched_by(MetadataState(), NoOpRecord())


def test_everything_is_touched_by_what_would_make_the_same_state() -> None:
    records = (
        BROKER,
        TOPIC,
        PARTITION,
        ConfigRecord(resource_type=2, resource_name="t", name="a", value="b"),
        FeatureLevelRecord(name="share.version", feature_level=1),
        ClientQuotaRecord(entity=[EntityData(entity_type="ip", entity_name=None)], key="connection_creation_rate"),
        UserScramCredentialRecord(name="u", mechanism=1),
        AccessControlEntryRecord(id=ID, resource_type=2, resource_name="t", pattern_type=3),
        DelegationTokenRecord(token_id="k"),
    )
    state, touched = MetadataState(), Touched()
    for record in records:
        state.replay(record, touched)
    assert state.everything() == touched
    assert touched.joined(Touched()) == Touched().joined(touched) == touched
