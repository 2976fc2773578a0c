"""What the metadata log says, in the two forms in which the parts of a broker know it.

The image has the brokers and topics (`apply_brokers`, `apply_topics`); handlers read nothing else about those. A tree
in memory has settings, quotas, users, access control entries, tokens and features, under the nodes that they have in
ZooKeeper: what follows such nodes there follows them here, by the same announcements (`project`). The tree is only
ever written here; whoever wants a change asks the controllers for it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.metadata import paths
from tidelog.metadata.acls import change_entries
from tidelog.metadata.client_quotas import QuotaNode
from tidelog.metadata.configs import ConfigEntity, replace_overrides
from tidelog.metadata.entities import CLIENT_METRICS, GROUPS, entity_of
from tidelog.metadata.errors import StoreError
from tidelog.metadata.features import FEATURES, SUPPORTED
from tidelog.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.metadata.quorum.records import AccessControlEntryRecord, DelegationTokenRecord, UserScramCredentialRecord
from tidelog.metadata.quorum.state import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    TOPIC_RESOURCE,
    UNASSIGNED_DIRECTORY,
    Entity,
    MetadataState,
    QuorumPartition,
    QuorumTopic,
    RegisteredBroker,
    Touched,
)
from tidelog.metadata.store import Store
from tidelog.metadata.tokens import remove_token, write_token
from tidelog.metadata.tree import encode_features
from tidelog.metadata.users import user_entity
from tidelog.metadata.walk import create_if_missing, ensure_paths
from tidelog.security.acls import (
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from tidelog.security.scram import ScramCredential
from tidelog.security.tokens import DelegationToken

_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}

METADATA_VERSIONS: Final = (7, 30)
"""The levels of `metadata.version` whose records are known: 3.3-IV3 to 4.3-IV0."""

QUORUM_FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    "metadata.version": METADATA_VERSIONS,
    "kraft.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}
"""Features that only a KRaft cluster has, and the levels of them that a broker like this one can be a member with."""


class UnsupportedFeatureError(StoreError):
    """The cluster has finalised a level of a feature that this broker does not have."""

    def __init__(self, name: str, level: int, highest: int) -> None:
        has = f"supports levels up to {highest}" if highest else "does not have the feature"
        super().__init__(
            f"the cluster has finalised level {level} of {name}, and this version of Tidelog {has}: start a newer "
            f"version, or lower the level first (kafka-features.sh downgrade --feature {name}={highest})"
        )


def supported_levels() -> dict[str, tuple[int, int]]:
    """Every feature that this broker has, with the lowest and the highest level: part of its registration."""
    return {**QUORUM_FEATURES, **{name: (0, level) for name, level in SUPPORTED.items()}}


def check_features(state: MetadataState) -> None:
    """Raise `UnsupportedFeatureError` if the cluster has finalised a level that this broker does not have."""
    supported = supported_levels()
    for name, level in sorted(state.features.items()):
        lowest, highest = supported.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise UnsupportedFeatureError(name, level, highest)


# --- the image ---


def apply_brokers(image: ClusterImage, state: MetadataState, broker_ids: Iterable[int]) -> None:
    """Show the brokers that are registered and not fenced."""
    for broker_id in broker_ids:
        broker = state.brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            image.remove_broker(broker_id)
        else:
            shown = _shown(broker)
            if image.broker(broker_id) != shown:
                image.set_broker(shown)


def _shown(broker: RegisteredBroker) -> BrokerImage:
    endpoints = {endpoint.listener: endpoint for endpoint in broker.endpoints}
    return BrokerImage(broker.broker_id, endpoints, broker.rack, broker.epoch)


def apply_topics(image: ClusterImage, state: MetadataState, touched: Touched) -> Generator[None, None, list[str]]:
    """Show topics as they are now, in steps of one partition; returns the names of the topics that are gone."""
    indexes: dict[bytes, list[int]] = {}
    for topic_id, index in touched.partitions:
        indexes.setdefault(topic_id, []).append(index)
    gone = [name for topic_id, name in touched.topics.items() if topic_id not in state.topics]
    for name in gone:
        image.remove_topic(name)
    for topic_id, name in touched.topics.items():
        topic = state.topics.get(topic_id)
        if topic is None:
            continue
        known = image.topic(name)
        if known is not None and known.topic_id == topic_id and len(known.partitions) == len(topic.partitions):
            for index in indexes.get(topic_id, ()):
                image.set_partition(name, _partition(state, index, topic.partitions[index]))
                yield
        else:
            image.set_overrides(name, state.configs.get((TOPIC_RESOURCE, name), {}))
            partitions = []
            for index in _without_gaps(topic):
                partitions.append(_partition(state, index, topic.partitions[index]))
                yield
            image.set_topic(TopicImage(name, topic_id, partitions))
    return gone


def _without_gaps(topic: QuorumTopic) -> range:
    """The indexes from 0 on; those behind one that is missing are on their way."""
    count = len(topic.partitions)
    return range(next((index for index in range(count) if index not in topic.partitions), count))


def _partition(state: MetadataState, index: int, partition: QuorumPartition) -> PartitionImage:
    return PartitionImage(
        index,
        partition.leader_id,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        failed_replicas(state, partition),
        partition.partition_epoch,
    )


def failed_replicas(state: MetadataState, partition: QuorumPartition) -> tuple[int, ...]:
    """The replicas in a log directory that is not among those that their broker has online."""
    return tuple(
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=False)
        if _has_failed(directory, state.brokers.get(replica))
    )


def _has_failed(directory: bytes, broker: RegisteredBroker | None) -> bool:
    if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY) or broker is None or not broker.log_dirs:
        return False
    return directory == LOST_DIRECTORY or directory not in broker.log_dirs


def partitions_on(state: MetadataState, broker_ids: Iterable[int]) -> set[tuple[bytes, int]]:
    """The partitions that have a replica on one of these brokers."""
    wanted = set(broker_ids)
    return {
        (topic.topic_id, index)
        for topic in state.topics.values()
        for index, partition in topic.partitions.items()
        if not wanted.isdisjoint(partition.replicas)
    }


# --- the tree ---


class Write(NamedTuple):
    """One change of the tree: a function of the store, which runs in its turn, and what it takes."""

    function: Callable[..., object]
    arguments: tuple[object, ...]


def writes(state: MetadataState, touched: Touched) -> list[Write]:
    """What to write to the tree. Nothing in the list changes with the state."""
    found = [Write(_write_features, (_levels(state),))] if touched.features else []
    found += [
        Write(_write_settings, (entity, dict(state.configs.get(key, {}))))
        for key in sorted(touched.configs)
        if (entity := _entity_of(key)) is not None
    ]
    users = touched.users | {name for entity in touched.quotas if (name := _user_of(entity)) is not None}
    found += [Write(_write_settings, (user_entity(name), _user_settings(state, name))) for name in sorted(users)]
    found += [
        Write(_write_settings, (node.entity, _quotas(state, entity)))
        for entity in sorted(touched.quotas, key=str)
        if _user_of(entity) is None and (node := _node_of(entity)) is not None
    ]
    found += [
        Write(_write_entries, (_pattern(key), tuple(map(_entry, state.entries_of(key)))))
        for key in sorted(touched.acls)
    ]
    found += [
        Write(_write_token, (token_id, _token(state.tokens.get(token_id)))) for token_id in sorted(touched.tokens)
    ]
    return found


def project(store: Store, found: Iterable[Write]) -> None:
    """Write them. Announcements tell whoever follows the tree."""
    for write in found:
        write.function(store, *write.arguments)


def _levels(state: MetadataState) -> dict[str, int]:
    """The levels of the features that the tree knows, each by name: in a KRaft cluster none is implied."""
    return {name: state.features.get(name, 0) for name in FEATURES}


def _write_features(store: Store, levels: Mapping[str, int]) -> None:
    data = encode_features(levels)
    if not create_if_missing(store, paths.FEATURES, data):
        store.set(paths.FEATURES, data)


def _entity_of(key: tuple[int, str]) -> ConfigEntity | None:
    kind, name = key
    if kind == TOPIC_RESOURCE:
        return ConfigEntity("topics", name)
    if kind == BROKER_RESOURCE:
        return ConfigEntity("brokers", name or paths.DEFAULT_ENTITY)
    if kind == CLIENT_METRICS_RESOURCE:
        return entity_of(CLIENT_METRICS, name)
    if kind == GROUP_RESOURCE:
        return entity_of(GROUPS, name)
    return None


def _write_settings(store: Store, entity: ConfigEntity, settings: Mapping[str, str]) -> None:
    ensure_paths(store, [entity.path.rpartition("/")[0]])
    replace_overrides(store, entity, settings, _accept)


def _accept(_overrides: object) -> None:
    """The controllers have checked it."""


def _user_of(entity: Entity) -> str | None:
    """The user whose own quotas these are, if they are those of one user: they stand beside the credentials."""
    match entity:
        case (("user", str(name)),):
            return name
    return None


def _user_settings(state: MetadataState, name: str) -> dict[str, str]:
    settings = _quotas(state, (("user", name),))
    for mechanism, record in state.scram.get(name, {}).items():
        if mechanism in _MECHANISMS:
            settings[_MECHANISMS[mechanism]] = str(_credential(record))
    return settings


def _credential(record: UserScramCredentialRecord) -> ScramCredential:
    return ScramCredential(
        salt=record.salt, stored_key=record.stored_key, server_key=record.server_key, iterations=record.iterations
    )


def _quotas(state: MetadataState, entity: Entity) -> dict[str, str]:
    return {name: str(value) for name, value in state.quotas.get(entity, {}).items()}


def _node_of(entity: Entity) -> QuotaNode | None:
    """Where quotas stand; None for an entity of a kind that is not known."""
    names = {kind: paths.DEFAULT_ENTITY if name is None else name for kind, name in entity}
    if not names or names.keys() - {"user", "client-id", "ip"}:
        return None
    return QuotaNode(user=names.get("user"), client_id=names.get("client-id"), ip=names.get("ip"))


def _pattern(key: tuple[int, str, int]) -> ResourcePattern:
    kind, name, pattern = key
    return ResourcePattern(AclResourceType(kind), name, PatternType(pattern))


def _entry(record: AccessControlEntryRecord) -> AccessControlEntry:
    return AccessControlEntry(
        record.principal, record.host, AclOperation(record.operation), AclPermissionType(record.permission_type)
    )


def _write_entries(store: Store, resource: ResourcePattern, entries: tuple[AccessControlEntry, ...]) -> None:
    change_entries(store, resource, lambda _before: entries)


def _token(record: DelegationTokenRecord | None) -> DelegationToken | None:
    if record is None:
        return None
    return DelegationToken(
        record.token_id,
        record.owner,
        record.requester,
        tuple(record.renewers),
        record.issue_timestamp,
        record.max_timestamp,
        record.expiration_timestamp,
    )


def _write_token(store: Store, token_id: str, token: DelegationToken | None) -> None:
    if token is None:
        remove_token(store, token_id)
    else:
        write_token(store, token)
