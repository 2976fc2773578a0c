"""Where things stand in the metadata tree: the node paths of Kafka's ZooKeeper mode. `tree` says what they hold."""

from typing import Final

CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
BROKER_SEQUENCE: Final = "/brokers/seqid"
TOPICS: Final = "/brokers/topics"
CONFIG: Final = "/config"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "config_change_"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGNMENTS: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
FEATURES: Final = "/feature"
PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
LOG_DIR_EVENT_PREFIX: Final = "log_dir_event_"
ACLS: Final = "/kafka-acl"
ACL_CHANGES: Final = "/kafka-acl-changes"
EXTENDED_ACLS: Final = "/kafka-acl-extended"
EXTENDED_ACL_CHANGES: Final = "/kafka-acl-extended-changes"
ACL_CHANGE_PREFIX: Final = "acl_changes_"
TOKENS: Final = "/delegation_token/tokens"
TOKEN_CHANGES: Final = "/delegation_token/token_changes"  # noqa: S105 - a path
TOKEN_CHANGE_PREFIX: Final = "token_change_"  # noqa: S105 - the name of a node
ADOPTION: Final = "/tidelog/adoption"
"""A node of our own, which Kafka's tree does not have."""

CONFIG_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")
DEFAULT_ENTITY: Final = "<default>"
"""The entity whose settings apply to every broker, client or user without its own."""

PERSISTENT_ROOTS: Final = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_ID_BLOCK,
    LOG_DIR_EVENTS,
    *(f"{CONFIG}/{kind}" for kind in CONFIG_TYPES),
)
"""What a broker makes when it starts and finds missing."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(topic_name: str) -> str:
    return f"{TOPICS}/{topic_name}/partitions"


def partition(topic_name: str, index: int) -> str:
    return f"{TOPICS}/{topic_name}/partitions/{index}"


def partition_state(topic_name: str, index: int) -> str:
    return f"{TOPICS}/{topic_name}/partitions/{index}/state"


def config(kind: str, name: str) -> str:
    return f"{CONFIG}/{kind}/{name}"


def topic_deletion(name: str) -> str:
    return f"{DELETE_TOPICS}/{name}"
