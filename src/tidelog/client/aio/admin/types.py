"""What an admin takes and gives back, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.security.acls import (
    AccessControlEntry as AccessControlEntry,
)
from tidelog.security.acls import (
    AclBinding as AclBinding,
)
from tidelog.security.acls import (
    AclBindingFilter as AclBindingFilter,
)
from tidelog.security.acls import (
    AclOperation as AclOperation,
)
from tidelog.security.acls import (
    AclPermissionType as AclPermissionType,
)
from tidelog.security.acls import (
    AclResourceType as AclResourceType,
)
from tidelog.security.acls import (
    PatternType as PatternType,
)
from tidelog.security.acls import (
    ResourcePattern as ResourcePattern,
)

# Stand-ins for a time in `list_offsets`.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3

HIGH_WATERMARK: Final = -1
"""In `delete_records`: everything that is there."""


class ClusterDescription(NamedTuple):
    """The brokers of a cluster."""

    cluster_id: str
    controller_id: int
    nodes: tuple[BrokerNode, ...]


# Features.


class FeatureUpgrade(IntEnum):
    """What an update of a feature may do."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureDescription(NamedTuple):
    """A feature of the cluster; a level of 0 means that it is off."""

    name: str
    supported: int
    """The highest level that every broker supports."""
    level: int
    """The level that is finalised, and so in effect."""


# Quotas.

DEFAULT_ENTITY: Final = "<default>"
"""In place of a name in a `ClientQuotaEntity`: all that have no quota of their own."""


class ClientQuotaEntity(NamedTuple):
    """Whose quota: None where a user, a client id or an address does not matter."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> "ClientQuotaEntity":
        """From the names that the protocol uses, where None is the default."""
        names = {kind: DEFAULT_ENTITY if name is None else name for kind, name in parts.items()}
        return cls(names.get("user"), names.get("client-id"), names.get("ip"))

    @property
    def parts(self) -> dict[str, str | None]:
        """By the names that the protocol uses, with None for the default."""
        names = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {kind: None if name == DEFAULT_ENTITY else name for kind, name in names.items() if name is not None}

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name or 'default'}" for kind, name in self.parts.items())


# Delegation tokens.


class DelegationToken(NamedTuple):
    """A token with its secret. Principals have Kafka's form, `User:name`; times are epoch milliseconds."""

    token_id: str
    hmac: str
    """In base64: the password of a SCRAM login whose user name is the token's id."""
    owner: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def __repr__(self) -> str:
        return f"DelegationToken({self.token_id!r}, owner={self.owner!r})"


# Topics.


class NewTopic(NamedTuple):
    """A topic to be made. -1 leaves partitions or replication to the broker's defaults; an assignment names both."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    assignment: Sequence[Sequence[int]] = ()


class CreatedTopic(NamedTuple):
    """What the controller made of a `NewTopic`; -1 where its version does not say."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


class NewPartitions(NamedTuple):
    """How many partitions a topic is to have in all, and where the new ones go."""

    total: int
    assignment: Sequence[Sequence[int]] = ()


class PartitionDescription(NamedTuple):
    """One partition: brokers by id, -1 for no leader."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


class TopicListing(NamedTuple):
    """A topic's name, its id and how many partitions it has."""

    name: str
    topic_id: bytes
    is_internal: bool
    partition_count: int


class TopicDescription(NamedTuple):
    """A topic and its partitions, in order."""

    name: str
    topic_id: bytes
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class DelayedRecord(NamedTuple):
    """A record that waits for its time. Sorted by due time."""

    deliver_at_ms: int
    partition: int
    offset: int
    """As in the reply to its producer; consumers meet the record at another one."""
    key: bytes | None
    value_bytes: int


class DelayedListing(NamedTuple):
    """What waits in one partition: how many records in all, and the next due of them."""

    waiting: int
    records: tuple[DelayedRecord, ...]


class Compaction(NamedTuple):
    """One replica of a partition: the state of its last compaction that was requested; empty if none was."""

    partition: int
    broker: int
    state: str
    message: str
    bytes_before: int
    bytes_after: int
    bytes_done: int
    bytes_total: int

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state not in ("waiting", "cleaning")

    @property
    def share_done(self) -> float:
        """How far it is, from 0 to 1."""
        if self.is_over:
            return 1.0
        return min(self.bytes_done / self.bytes_total, 1.0) if self.bytes_total else 0.0


# Settings.


class ResourceType(IntEnum):
    """What a setting belongs to, numbered as on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A topic by name, a broker by id, or all brokers as the broker named ''."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower()} {self.name or 'defaults'}"


class ConfigSource(IntEnum):
    """Where a value comes from, numbered as on the wire."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(NamedTuple):
    """Another place the value could come from."""

    name: str
    value: str | None
    source: int


class ConfigEntry(NamedTuple):
    """One setting. A sensitive one has no value."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether it is the default."""
        return self.source == ConfigSource.DEFAULT


class AlterOperation(IntEnum):
    """What to do to a setting, numbered as on the wire. The last two are for settings that are lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one setting; DELETE needs no value."""

    name: str
    value: str | None = None
    operation: AlterOperation = AlterOperation.SET


# Partitions.


class ListedOffset(NamedTuple):
    """An offset and the time of its record; -1 where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


class TopicPartitionReplica(NamedTuple):
    """The replica of a partition on one broker."""

    topic: str
    partition: int
    broker_id: int


class ReplicaOnDisk(NamedTuple):
    """A partition in a log directory."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirectory(NamedTuple):
    """One of a broker's log directories; bytes are -1 where the broker does not say."""

    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, ReplicaOnDisk]


class ActiveProducer(NamedTuple):
    """What a partition remembers of a producer; `transaction_start_offset` is -1 when none is open."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_start_offset: int


class Reassignment(NamedTuple):
    """A partition that is moving between brokers."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ElectionType(IntEnum):
    """Which replica may become leader."""

    PREFERRED = 0
    UNCLEAN = 1


# Groups.


class GroupListing(NamedTuple):
    """A group; state and type are '' if brokers are too old."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberDescription(NamedTuple):
    """One member of a group and, in a consumer group, what it has and subscribed to."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    subscription: tuple[str, ...]


class GroupDescription(NamedTuple):
    """A group and its members."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    coordinator: BrokerNode


class ShareGroupOffset(NamedTuple):
    """Where a share group begins in a partition: everything before is done."""

    start_offset: int
    lag: int | None
    """Records that are not done; None if the broker does not say."""
    leader_epoch: int = -1


class MemberToRemove(NamedTuple):
    """A member to be taken out of a group: by its static id, or by the id that the broker gave it."""

    group_instance_id: str | None = None
    member_id: str = ""


# Transactions.


class TransactionStatus(Enum):
    """The states of a transaction, as brokers name them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class TransactionListing(NamedTuple):
    """A transactional id and where it stands."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    """A transactional id in detail; `start_time_ms` is -1 when no transaction is open."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int
    partitions: tuple[TopicPartition, ...]
    coordinator: BrokerNode


@dataclass(frozen=True, slots=True)
class ScramCredentialUpsert:
    """A user's new credential: the salted password, from which the password cannot be computed."""

    user: str
    mechanism: str
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


class ScramCredentialDeletion(NamedTuple):
    """A user's credential that is to be removed."""

    user: str
    mechanism: str
