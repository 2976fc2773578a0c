"""The records of the metadata log, `__cluster_metadata`, under Kafka's own names.

The controllers of a KRaft quorum write them, and nobody else. Each has a number, which is no key of the protocol, and
versions, which `metadata.version` raises. `frames` says how a record stands in the log, `state` what it changes.
"""

from typing import Final

from tidelog.wire.schema import (
    Message,
    Struct,
    array,
    blob,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)

NO_LEADER_CHANGE: Final = -2
"""The leader of a `PartitionChangeRecord` that names none."""


class BrokerEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(Message, api_key=0, versions=(0, 4), flexible_from=0):
    """A broker registered; it is fenced until its heartbeats show that it knows the metadata."""

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean(since=2)
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(None, null_since=0)
    fenced: bool = boolean(True)
    in_controlled_shutdown: bool = boolean(since=1)
    log_dirs: list[bytes] = array(uuid, since=3, tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, None, since=4, null_since=4, tag=1)


class UnregisterBrokerRecord(Message, api_key=1, versions=(0, 0), flexible_from=0):
    """A broker is gone for good."""

    broker_id: int = int32()
    broker_epoch: int = int64()


class TopicRecord(Message, api_key=2, versions=(0, 0), flexible_from=0):
    """A topic was made. Its partitions follow."""

    name: str = string()
    topic_id: bytes = uuid()


class PartitionRecord(Message, api_key=3, versions=(0, 2), flexible_from=0):
    """A partition as a whole: made, or in a snapshot."""

    partition_id: int = int32(-1)
    topic_id: bytes = uuid()
    replicas: list[int] = array(int32)
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    leader: int = int32(-1)
    leader_recovery_state: int = int8(tag=0)
    leader_epoch: int = int32(-1)
    partition_epoch: int = int32(-1)
    directories: list[bytes] = array(uuid, since=1)
    eligible_leader_replicas: list[int] | None = array(int32, None, since=2, null_since=2, tag=1)
    last_known_elr: list[int] | None = array(int32, None, since=2, null_since=2, tag=2)


class ConfigRecord(Message, api_key=4, versions=(0, 0), flexible_from=0):
    """A setting of a topic, a broker, a group or a subscription; no value removes it."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(None, null_since=0)


class PartitionChangeRecord(Message, api_key=5, versions=(0, 2), flexible_from=0):
    """What changed of a partition; the rest stays. The leader -2 is the one from before."""

    partition_id: int = int32(-1)
    topic_id: bytes = uuid()
    isr: list[int] | None = array(int32, None, null_since=0, tag=0)
    leader: int = int32(-2, tag=1)
    replicas: list[int] | None = array(int32, None, null_since=0, tag=2)
    removing_replicas: list[int] | None = array(int32, None, null_since=0, tag=3)
    adding_replicas: list[int] | None = array(int32, None, null_since=0, tag=4)
    leader_recovery_state: int = int8(-1, tag=5)
    directories: list[bytes] | None = array(uuid, None, since=1, null_since=1, tag=8)
    eligible_leader_replicas: list[int] | None = array(int32, None, since=2, null_since=2, tag=6)
    last_known_elr: list[int] | None = array(int32, None, since=2, null_since=2, tag=7)


class FenceBrokerRecord(Message, api_key=7, versions=(0, 0), flexible_from=0):
    """Before metadata.version 3.3-IV0: a broker is fenced."""

    id: int = int32()
    epoch: int = int64()


class UnfenceBrokerRecord(Message, api_key=8, versions=(0, 0), flexible_from=0):
    """Before metadata.version 3.3-IV0: a broker is no longer fenced."""

    id: int = int32()
    epoch: int = int64()


class RemoveTopicRecord(Message, api_key=9, versions=(0, 0), flexible_from=0):
    """A topic was deleted, with its partitions and settings."""

    topic_id: bytes = uuid()


class DelegationTokenRecord(Message, api_key=10, versions=(0, 0), flexible_from=0):
    """A token, new or changed."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


class UserScramCredentialRecord(Message, api_key=11, versions=(0, 0), flexible_from=0):
    """What a user proves a password with, for one mechanism."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = blob()
    stored_key: bytes = blob()
    server_key: bytes = blob()
    iterations: int = int32()


class FeatureLevelRecord(Message, api_key=12, versions=(0, 0), flexible_from=0):
    """The finalised level of a feature; 0 removes it."""

    name: str = string()
    feature_level: int = int16()


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(None, null_since=0)


class ClientQuotaRecord(Message, api_key=14, versions=(0, 0), flexible_from=0):
    """One quota of users, clients or addresses."""

    entity: list[EntityData] = array(EntityData)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class ProducerIdsRecord(Message, api_key=15, versions=(0, 0), flexible_from=0):
    """Producer ids below this one were handed out."""

    broker_id: int = int32()
    broker_epoch: int = int64(-1)
    next_producer_id: int = int64()


class BrokerRegistrationChangeRecord(Message, api_key=17, versions=(0, 3), flexible_from=0):
    """What changed of a registration: -1 unfences, 1 fences, 0 leaves it."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0)
    in_controlled_shutdown: int = int8(since=1, tag=1)
    log_dirs: list[bytes] = array(uuid, since=2, tag=2)
    cordoned_log_dirs: list[bytes] | None = array(uuid, None, since=3, null_since=3, tag=3)


class AccessControlEntryRecord(Message, api_key=18, versions=(0, 0), flexible_from=0):
    """An access control entry, under an id of its own."""

    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(Message, api_key=19, versions=(0, 0), flexible_from=0):
    """The entry with this id is removed."""

    id: bytes = uuid()


class NoOpRecord(Message, api_key=20, versions=(0, 0), flexible_from=0):
    """Nothing; the controller writes it to show that the log goes on."""


class ZkMigrationStateRecord(Message, api_key=21, versions=(0, 0), flexible_from=0):
    """How far a migration from ZooKeeper has got."""

    zk_migration_state: int = int8()


class RemoveUserScramCredentialRecord(Message, api_key=22, versions=(0, 0), flexible_from=0):
    """A user loses the credential of one mechanism."""

    name: str = string()
    mechanism: int = int8()


class BeginTransactionRecord(Message, api_key=23, versions=(0, 0), flexible_from=0):
    """What follows takes effect at the end of the transaction, or never."""

    name: str | None = string(None, null_since=0, tag=0)


class EndTransactionRecord(Message, api_key=24, versions=(0, 0), flexible_from=0):
    """The transaction takes effect."""


class AbortTransactionRecord(Message, api_key=25, versions=(0, 0), flexible_from=0):
    """What the transaction holds is dropped."""

    reason: str | None = string(None, null_since=0, tag=0)


class RemoveDelegationTokenRecord(Message, api_key=26, versions=(0, 0), flexible_from=0):
    """A token is gone."""

    token_id: str = string()


class ControllerEndpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class ControllerFeature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterControllerRecord(Message, api_key=27, versions=(0, 0), flexible_from=0):
    """A controller, where it listens and what it supports."""

    controller_id: int = int32()
    incarnation_id: bytes = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint)
    features: list[ControllerFeature] = array(ControllerFeature)


class ClearElrRecord(Message, api_key=28, versions=(0, 0), flexible_from=0):
    """The eligible leader replicas of a topic are no longer kept; of all topics where it names none."""

    topic_name: str = string()


RECORDS: Final[dict[int, type[Message]]] = {
    record.api_key: record
    for record in (
        RegisterBrokerRecord,
        UnregisterBrokerRecord,
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        FenceBrokerRecord,
        UnfenceBrokerRecord,
        RemoveTopicRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        BrokerRegistrationChangeRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        NoOpRecord,
        ZkMigrationStateRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
        RegisterControllerRecord,
        ClearElrRecord,
    )
}
"""Every kind of record by its number. Numbers that are missing were never used, or belong to kinds long gone."""
