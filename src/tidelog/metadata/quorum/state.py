"""The cluster as the records of the metadata log describe it, and what each record changes.

`MetadataState.replay` is the only thing that changes the state. It notes in a `Touched` what it changed, by name and
not by value: whoever follows the state looks there and reads here. After a snapshot, which replaces the whole state,
everything that either state has counts as touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tidelog.metadata.quorum.frames import MetadataRecordError
from tidelog.metadata.quorum.records import (
    NO_LEADER_CHANGE,
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
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
    ZkMigrationStateRecord,
)
from tidelog.metadata.tree import Endpoint
from tidelog.wire.schema import Message

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By their numbers in registrations."""

UNASSIGNED_DIRECTORY: Final = bytes(16)
LOST_DIRECTORY: Final = bytes(15) + b"\x01"
MIGRATING_DIRECTORY: Final = bytes(15) + b"\x02"
"""What stands for a log directory that is not known, has failed unseen, or is from before directories had ids."""


class RegisteredBroker(NamedTuple):
    """A broker's registration as it is now. A fenced broker leads nothing and is shown to no client."""

    broker_id: int
    epoch: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    is_fenced: bool
    is_shutting_down: bool
    log_dirs: tuple[bytes, ...]

    @property
    def is_active(self) -> bool:
        """Whether it may be in sync: neither fenced nor about to stop."""
        return not self.is_fenced and not self.is_shutting_down


class QuorumPartition(NamedTuple):
    """A partition. `directories` has the log directory of each replica, in the order of `replicas`."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_id: int
    leader_epoch: int
    partition_epoch: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovery_state: int = 0
    directories: tuple[bytes, ...] = ()
    eligible_leaders: tuple[int, ...] = ()
    last_known_eligible: tuple[int, ...] = ()

    def directory_of(self, broker_id: int) -> bytes:
        """The log directory of a broker's replica, as far as the controllers know it."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return MIGRATING_DIRECTORY


@dataclass(slots=True)
class QuorumTopic:
    """A topic and its partitions by index, which need not be without gaps while it is being read."""

    name: str
    topic_id: bytes
    partitions: dict[int, QuorumPartition] = field(default_factory=dict)


Entity = tuple[tuple[str, str | None], ...]
"""Whose quota: pairs of a type (`user`, `client-id`, `ip`) and a name, None for all names without a quota; sorted."""


@dataclass(slots=True)
class Touched:
    """What has changed, by name."""

    brokers: set[int] = field(default_factory=set)
    topics: dict[bytes, str] = field(default_factory=dict)
    """Topics that were made or deleted, or whose partitions changed: their names by id."""
    partitions: set[tuple[bytes, int]] = field(default_factory=set)
    configs: set[tuple[int, str]] = field(default_factory=set)
    features: bool = False
    quotas: set[Entity] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    acls: set[tuple[int, str, int]] = field(default_factory=set)
    """Resources: type, name and kind of pattern."""
    tokens: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def joined(self, other: Touched) -> Touched:
        """What either has."""
        return Touched(
            self.brokers | other.brokers,
            self.topics | other.topics,
            self.partitions | other.partitions,
            self.configs | other.configs,
            self.features or other.features,
            self.quotas | other.quotas,
            self.users | other.users,
            self.acls | other.acls,
            self.tokens | other.tokens,
        )


class MetadataState:
    """Everything that the log says. Read it freely; only `replay` changes it."""

    def __init__(self) -> None:
        self.brokers: dict[int, RegisteredBroker] = {}
        self.controllers: dict[int, tuple[Endpoint, ...]] = {}
        self.topics: dict[bytes, QuorumTopic] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """Settings by type and name of their resource, in the numbers of DescribeConfigs."""
        self.features: dict[str, int] = {}
        self.quotas: dict[Entity, dict[str, float]] = {}
        self.scram: dict[str, dict[int, UserScramCredentialRecord]] = {}
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        self.tokens: dict[str, DelegationTokenRecord] = {}
        self.next_producer_id = 0

    def replay(self, record: Message, touched: Touched) -> None:
        """Apply one record. Raises `MetadataRecordError` where it contradicts the state."""
        try:
            _REPLAYS[type(record)](self, record, touched)
        except KeyError as error:
            raise MetadataRecordError(f"{record!r} names something that the metadata lacks: {error}") from error

    # --- brokers and controllers ---

    def _register_broker(self, record: RegisterBrokerRecord, touched: Touched) -> None:
        self.brokers[record.broker_id] = RegisteredBroker(
            record.broker_id,
            record.broker_epoch,
            record.incarnation_id,
            _endpoints(record.end_points),
            {each.name: (each.min_supported_version, each.max_supported_version) for each in record.features},
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            tuple(record.log_dirs),
        )
        touched.brokers.add(record.broker_id)

    def _unregister_broker(self, record: UnregisterBrokerRecord, touched: Touched) -> None:
        self._broker(record.broker_id, record.broker_epoch)
        del self.brokers[record.broker_id]
        touched.brokers.add(record.broker_id)

    def _broker(self, broker_id: int, epoch: int) -> RegisteredBroker:
        broker = self.brokers[broker_id]
        if broker.epoch != epoch:
            raise MetadataRecordError(f"broker {broker_id} has the epoch {broker.epoch}, and a record names {epoch}")
        return broker

    def _change_broker(self, record: BrokerRegistrationChangeRecord, touched: Touched) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        self.brokers[record.broker_id] = broker._replace(
            is_fenced=record.fenced > 0 if record.fenced else broker.is_fenced,
            is_shutting_down=broker.is_shutting_down or record.in_controlled_shutdown > 0,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
        )
        touched.brokers.add(record.broker_id)

    def _fence_broker(self, record: FenceBrokerRecord, touched: Touched) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch)._replace(is_fenced=True)
        touched.brokers.add(record.id)

    def _unfence_broker(self, record: UnfenceBrokerRecord, touched: Touched) -> None:
        self.brokers[record.id] = self._broker(record.id, record.epoch)._replace(is_fenced=False)
        touched.brokers.add(record.id)

    def _register_controller(self, record: RegisterControllerRecord, _touched: Touched) -> None:
        self.controllers[record.controller_id] = _endpoints(record.end_points)

    # --- topics ---

    def _add_topic(self, record: TopicRecord, touched: Touched) -> None:
        self.topics[record.topic_id] = QuorumTopic(record.name, record.topic_id)
        self.topic_ids[record.name] = record.topic_id
        touched.topics[record.topic_id] = record.name

    def _remove_topic(self, record: RemoveTopicRecord, touched: Touched) -> None:
        topic = self.topics.pop(record.topic_id)
        if self.topic_ids.get(topic.name) == record.topic_id:
            del self.topic_ids[topic.name]
        # Its settings go with it; no record says so.
        if self.configs.pop((TOPIC_RESOURCE, topic.name), None) is not None:
            touched.configs.add((TOPIC_RESOURCE, topic.name))
        touched.topics[record.topic_id] = topic.name
        touched.partitions.update((record.topic_id, index) for index in topic.partitions)

    def _set_partition(self, record: PartitionRecord, touched: Touched) -> None:
        topic = self.topics[record.topic_id]
        topic.partitions[record.partition_id] = QuorumPartition(
            tuple(record.replicas),
            tuple(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            tuple(record.adding_replicas),
            tuple(record.removing_replicas),
            record.leader_recovery_state,
            tuple(record.directories),
            tuple(record.eligible_leader_replicas or ()),
            tuple(record.last_known_elr or ()),
        )
        self._touch_partition(topic, record.partition_id, touched)

    def _change_partition(self, record: PartitionChangeRecord, touched: Touched) -> None:
        topic = self.topics[record.topic_id]
        topic.partitions[record.partition_id] = _changed(topic.partitions[record.partition_id], record)
        self._touch_partition(topic, record.partition_id, touched)

    @staticmethod
    def _touch_partition(topic: QuorumTopic, index: int, touched: Touched) -> None:
        touched.topics[topic.topic_id] = topic.name
        touched.partitions.add((topic.topic_id, index))

    def _clear_eligible(self, record: ClearElrRecord, touched: Touched) -> None:
        topics = list(self.topics.values())
        if record.topic_name:
            topics = [self.topics[self.topic_ids[record.topic_name]]]
        for topic in topics:
            for index, partition in topic.partitions.items():
                topic.partitions[index] = partition._replace(eligible_leaders=(), last_known_eligible=())
                self._touch_partition(topic, index, touched)

    # --- settings, features, quotas ---

    def _set_config(self, record: ConfigRecord, touched: Touched) -> None:
        key = record.resource_type, record.resource_name
        settings = self.configs.setdefault(key, {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        if not settings:
            del self.configs[key]
        touched.configs.add(key)

    def _set_feature(self, record: FeatureLevelRecord, touched: Touched) -> None:
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)
        touched.features = True

    def _set_quota(self, record: ClientQuotaRecord, touched: Touched) -> None:
        entity = tuple(sorted((each.entity_type, each.entity_name) for each in record.entity))
        quotas = self.quotas.setdefault(entity, {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if not quotas:
            del self.quotas[entity]
        touched.quotas.add(entity)

    # --- users, access, tokens ---

    def _set_credential(self, record: UserScramCredentialRecord, touched: Touched) -> None:
        self.scram.setdefault(record.name, {})[record.mechanism] = record
        touched.users.add(record.name)

    def _remove_credential(self, record: RemoveUserScramCredentialRecord, touched: Touched) -> None:
        credentials = self.scram[record.name]
        del credentials[record.mechanism]
        if not credentials:
            del self.scram[record.name]
        touched.users.add(record.name)

    def _add_entry(self, record: AccessControlEntryRecord, touched: Touched) -> None:
        self.acls[record.id] = record
        touched.acls.add(_resource(record))

    def _remove_entry(self, record: RemoveAccessControlEntryRecord, touched: Touched) -> None:
        touched.acls.add(_resource(self.acls.pop(record.id)))

    def _set_token(self, record: DelegationTokenRecord, touched: Touched) -> None:
        self.tokens[record.token_id] = record
        touched.tokens.add(record.token_id)

    def _remove_token(self, record: RemoveDelegationTokenRecord, touched: Touched) -> None:
        self.tokens.pop(record.token_id, None)
        touched.tokens.add(record.token_id)

    def _set_producer_ids(self, record: ProducerIdsRecord, _touched: Touched) -> None:
        self.next_producer_id = record.next_producer_id

    def _pass(self, _record: Message, _touched: Touched) -> None:
        """Nothing that a broker has to know."""

    # --- as a whole ---

    def entries_of(self, resource: tuple[int, str, int]) -> Iterator[AccessControlEntryRecord]:
        """The access control entries of a resource."""
        return (entry for entry in self.acls.values() if _resource(entry) == resource)

    def everything(self) -> Touched:
        """As if all that is here had just changed."""
        return Touched(
            brokers=set(self.brokers),
            topics={topic.topic_id: topic.name for topic in self.topics.values()},
            partitions={(topic.topic_id, index) for topic in self.topics.values() for index in topic.partitions},
            configs=set(self.configs),
            features=True,
            quotas=set(self.quotas),
            users=set(self.scram),
            acls={_resource(entry) for entry in self.acls.values()},
            tokens=set(self.tokens),
        )


TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
"""Whose settings: the types of ConfigRecord."""

_REPLAYS: Final[Mapping[type[Message], Callable[[MetadataState, Any, Touched], None]]] = {
    RegisterBrokerRecord: MetadataState._register_broker,
    UnregisterBrokerRecord: MetadataState._unregister_broker,
    BrokerRegistrationChangeRecord: MetadataState._change_broker,
    FenceBrokerRecord: MetadataState._fence_broker,
    UnfenceBrokerRecord: MetadataState._unfence_broker,
    RegisterControllerRecord: MetadataState._register_controller,
    TopicRecord: MetadataState._add_topic,
    RemoveTopicRecord: MetadataState._remove_topic,
    PartitionRecord: MetadataState._set_partition,
    PartitionChangeRecord: MetadataState._change_partition,
    ClearElrRecord: MetadataState._clear_eligible,
    ConfigRecord: MetadataState._set_config,
    FeatureLevelRecord: MetadataState._set_feature,
    ClientQuotaRecord: MetadataState._set_quota,
    UserScramCredentialRecord: MetadataState._set_credential,
    RemoveUserScramCredentialRecord: MetadataState._remove_credential,
    AccessControlEntryRecord: MetadataState._add_entry,
    RemoveAccessControlEntryRecord: MetadataState._remove_entry,
    DelegationTokenRecord: MetadataState._set_token,
    RemoveDelegationTokenRecord: MetadataState._remove_token,
    ProducerIdsRecord: MetadataState._set_producer_ids,
    NoOpRecord: MetadataState._pass,
    ZkMigrationStateRecord: MetadataState._pass,
}
"""What each kind of record does. Those that begin and end transactions never come here (`frames.Transactions`)."""


def _endpoints(found: list[Any]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(each.name, each.host, each.port, SECURITY_PROTOCOLS[each.security_protocol]) for each in found
    )


def _resource(record: AccessControlEntryRecord) -> tuple[int, str, int]:
    return record.resource_type, record.resource_name, record.pattern_type


def _changed(partition: QuorumPartition, record: PartitionChangeRecord) -> QuorumPartition:
    """The partition after a change. Every change has the next partition epoch, one of the leader the next leader epoch.

    A change may name the leader that it had: then only the epoch is new, and the leader leads again.
    """
    has_leader = record.leader != NO_LEADER_CHANGE
    lists = {
        "replicas": record.replicas,
        "isr": record.isr,
        "adding": record.adding_replicas,
        "removing": record.removing_replicas,
        "directories": record.directories,
        "eligible_leaders": record.eligible_leader_replicas,
        "last_known_eligible": record.last_known_elr,
    }
    changed: dict[str, Any] = {name: tuple(value) for name, value in lists.items() if value is not None}
    if has_leader:
        changed |= {"leader_id": record.leader, "leader_epoch": partition.leader_epoch + 1}
    if record.leader_recovery_state >= 0:
        changed["recovery_state"] = record.leader_recovery_state
    return partition._replace(partition_epoch=partition.partition_epoch + 1, **changed)
