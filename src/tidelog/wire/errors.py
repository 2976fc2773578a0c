"""The error codes of the protocol, and three separate kinds of exceptions.

    ErrorCode    Kafka's error codes: number, name, whether a retry may help, and the meaning
    ApiError     raised by any core to return one of these codes to the client; one place makes the response
    WireError    the peer's bytes are malformed; the connection is closed
    EncodeError  a bug: a message has a value that its version cannot encode

Every room above imports this module, so it imports no other room.
"""

from enum import IntEnum
from typing import Final, Self

RETRY: Final = True
FINAL: Final = False


class WireError(ValueError):
    """A peer's bytes are not a message of the version they claim."""


class EncodeError(ValueError):
    """A message has a value that cannot be encoded in the requested version."""


class ErrorCode(IntEnum):
    """Every error code of Kafka 3.9, under Kafka's own names."""

    retriable: bool
    """Whether the same request may succeed later, so that clients retry."""
    text: str
    """The meaning, for use as an error message."""

    def __new__(cls, value: int, retriable: bool = FINAL, text: str = "") -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.retriable = retriable
        member.text = text
        return member

    UNKNOWN_SERVER_ERROR = -1, FINAL, "The broker had an unexpected error; its log has the details."
    NONE = 0, FINAL, ""
    OFFSET_OUT_OF_RANGE = 1, FINAL, "The offset is outside the range of the log."
    CORRUPT_MESSAGE = 2, RETRY, "A record batch fails its checksum, has an invalid size or is otherwise corrupt."
    UNKNOWN_TOPIC_OR_PARTITION = 3, RETRY, "This broker does not have the topic or partition."
    INVALID_FETCH_SIZE = 4, FINAL, "The fetch size is invalid."
    LEADER_NOT_AVAILABLE = 5, RETRY, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, RETRY, "This broker is not the leader, or has no replica, of the partition."
    REQUEST_TIMED_OUT = 7, RETRY, "The request was not completed within its timeout."
    BROKER_NOT_AVAILABLE = 8, FINAL, "The broker is not available."
    REPLICA_NOT_AVAILABLE = 9, RETRY, "The replica of the partition is not available here."
    MESSAGE_TOO_LARGE = 10, FINAL, "A record batch is larger than max.message.bytes allows."
    STALE_CONTROLLER_EPOCH = 11, FINAL, "The request comes from a controller that has since been replaced."
    OFFSET_METADATA_TOO_LARGE = (
        12,
        FINAL,
        "The metadata of an offset is longer than offset.metadata.max.bytes.",
    )
    NETWORK_EXCEPTION = 13, RETRY, "The connection was lost before the response arrived."
    COORDINATOR_LOAD_IN_PROGRESS = 14, RETRY, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, RETRY, "The coordinator is not available."
    NOT_COORDINATOR = 16, RETRY, "This broker is not the coordinator for the given key."
    INVALID_TOPIC_EXCEPTION = 17, FINAL, "The topic name is invalid, or the topic does not allow the operation."
    RECORD_LIST_TOO_LARGE = 18, FINAL, "The record batches are larger than a segment can hold."
    NOT_ENOUGH_REPLICAS = (
        19,
        RETRY,
        "Not written: fewer replicas are in sync than min.insync.replicas.",
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, RETRY, "Written, but to fewer in-sync replicas than min.insync.replicas."
    INVALID_REQUIRED_ACKS = 21, FINAL, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, FINAL, "The generation is not the current one of the group."
    INCONSISTENT_GROUP_PROTOCOL = 23, FINAL, "The member shares no protocol with the group, or named none."
    INVALID_GROUP_ID = 24, FINAL, "The group id is invalid."
    UNKNOWN_MEMBER_ID = 25, FINAL, "The group has no such member."
    INVALID_SESSION_TIMEOUT = 26, FINAL, "The session timeout is outside group.min/max.session.timeout.ms."
    REBALANCE_IN_PROGRESS = 27, FINAL, "The group is rebalancing; the member must join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, FINAL, "The committed offset is too large to be stored."
    TOPIC_AUTHORIZATION_FAILED = 29, FINAL, "Not authorized to access the topic."
    GROUP_AUTHORIZATION_FAILED = 30, FINAL, "Not authorized to access the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, FINAL, "Not authorized for this operation on the cluster."
    INVALID_TIMESTAMP = 32, FINAL, "A record's timestamp is outside the range the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, FINAL, "The SASL mechanism is not enabled on this broker."
    ILLEGAL_SASL_STATE = 34, FINAL, "The request is not valid in the current state of authentication."
    UNSUPPORTED_VERSION = 35, FINAL, "This broker does not support the version of the request."
    TOPIC_ALREADY_EXISTS = 36, FINAL, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, FINAL, "The number of partitions is invalid."
    INVALID_REPLICATION_FACTOR = 38, FINAL, "The replication factor is below 1 or above the number of live brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, FINAL, "The assignment of replicas is invalid."
    INVALID_CONFIG = 40, FINAL, "A setting is unknown or has an invalid value."
    NOT_CONTROLLER = 41, RETRY, "This broker is not the controller."
    INVALID_REQUEST = 42, FINAL, "The request is malformed or contradictory."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FINAL, "The message format of the topic does not support the request."
    POLICY_VIOLATION = 44, FINAL, "A policy of this cluster forbids the change."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FINAL, "The producer's sequence number does not follow the last one."
    DUPLICATE_SEQUENCE_NUMBER = 46, FINAL, "The producer's sequence number has been seen already."
    INVALID_PRODUCER_EPOCH = 47, FINAL, "The producer's epoch is older than the current one."
    INVALID_TXN_STATE = 48, FINAL, "The transaction is in a state that does not allow the operation."
    INVALID_PRODUCER_ID_MAPPING = 49, FINAL, "The producer id does not belong to the transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, FINAL, "The transaction timeout is larger than transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, RETRY, "Another operation on the same transaction is still in progress."
    TRANSACTION_COORDINATOR_FENCED = 52, FINAL, "The markers come from a coordinator that has since been replaced."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FINAL, "Not authorized to use the transactional id."
    SECURITY_DISABLED = 54, FINAL, "No authorizer is configured on this broker."
    OPERATION_NOT_ATTEMPTED = 55, FINAL, "Not attempted, because another part of the same request failed."
    KAFKA_STORAGE_ERROR = 56, RETRY, "The disk that holds the partition failed."
    LOG_DIR_NOT_FOUND = 57, FINAL, "The log directory is not one of this broker's log.dirs."
    SASL_AUTHENTICATION_FAILED = 58, FINAL, "Authentication failed."
    UNKNOWN_PRODUCER_ID = 59, FINAL, "The broker has no state of the producer id; its records may have been deleted."
    REASSIGNMENT_IN_PROGRESS = 60, FINAL, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FINAL, "Delegation tokens are not enabled on this broker."
    DELEGATION_TOKEN_NOT_FOUND = 62, FINAL, "No such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FINAL, "Neither the owner nor a renewer of the delegation token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FINAL, "Delegation tokens may not be managed over this connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FINAL, "Not authorized to use the delegation token."
    DELEGATION_TOKEN_EXPIRED = 66, FINAL, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, FINAL, "The type of principal is not supported."
    NON_EMPTY_GROUP = 68, FINAL, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, FINAL, "No such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, RETRY, "No such fetch session; it may have been evicted."
    INVALID_FETCH_SESSION_EPOCH = 71, RETRY, "The epoch is not the next one of the fetch session."
    LISTENER_NOT_FOUND = 72, RETRY, "The leader has no listener with the name of the one that received the request."
    TOPIC_DELETION_DISABLED = 73, FINAL, "Topics may not be deleted: delete.topic.enable is false."
    FENCED_LEADER_EPOCH = 74, RETRY, "The leader epoch of the request is older than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, RETRY, "The leader epoch of the request is newer than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, FINAL, "The version of the request does not support the compression codec."
    STALE_BROKER_EPOCH = 77, FINAL, "The broker has registered again since."
    OFFSET_NOT_AVAILABLE = 78, RETRY, "The new leader's high watermark has not yet caught up."
    MEMBER_ID_REQUIRED = 79, FINAL, "The member must join again with the member id of this response."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, RETRY, "The preferred leader is not available."
    GROUP_MAX_SIZE_REACHED = 81, FINAL, "The group has as many members as group.max.size allows."
    FENCED_INSTANCE_ID = 82, FINAL, "Another member now has this group.instance.id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, RETRY, "No replica of the partition may become leader."
    ELECTION_NOT_NEEDED = 84, RETRY, "The partition already has the requested leader."
    NO_REASSIGNMENT_IN_PROGRESS = 85, FINAL, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FINAL, "Offsets of a topic stay while the group is subscribed to it."
    INVALID_RECORD = 87, FINAL, "A record failed the checks of its topic."
    UNSTABLE_OFFSET_COMMIT = 88, RETRY, "A transaction that commits these offsets is still open."
    THROTTLING_QUOTA_EXCEEDED = 89, RETRY, "The quota is exceeded; retry later."
    PRODUCER_FENCED = 90, FINAL, "A newer producer has the transactional id."
    RESOURCE_NOT_FOUND = 91, FINAL, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, FINAL, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, FINAL, "The credential does not meet the requirements."
    INCONSISTENT_VOTER_SET = 94, FINAL, "Sender or receiver is not among the expected voters."
    INVALID_UPDATE_VERSION = 95, FINAL, "The version to update to is invalid."
    FEATURE_UPDATE_FAILED = 96, FINAL, "The finalized features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FINAL, "The principal of a forwarded request could not be read."
    SNAPSHOT_NOT_FOUND = 98, FINAL, "No such snapshot."
    POSITION_OUT_OF_RANGE = 99, FINAL, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, RETRY, "This broker does not have a topic of this id."
    DUPLICATE_BROKER_REGISTRATION = 101, FINAL, "The broker id is in use by another broker."
    BROKER_ID_NOT_REGISTERED = 102, FINAL, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, RETRY, "The topic id differs from the one the log was created with."
    INCONSISTENT_CLUSTER_ID = 104, FINAL, "The cluster id is not that of this cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, FINAL, "No such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, RETRY, "The fetch session mixes topic ids and topic names."
    INELIGIBLE_REPLICA = 107, FINAL, "The new ISR contains a replica that may not be in it."
    NEW_LEADER_ELECTED = 108, FINAL, "The partition was changed as requested, and a new leader was elected."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FINAL, "The offset has moved to tiered storage."
    FENCED_MEMBER_EPOCH = 110, FINAL, "The member's epoch is fenced; it must revoke its partitions and join again."
    UNRELEASED_INSTANCE_ID = 111, FINAL, "Another member still uses the instance id and must leave first."
    UNSUPPORTED_ASSIGNOR = 112, FINAL, "The group does not support the assignor."
    STALE_MEMBER_EPOCH = 113, FINAL, "The member's epoch is stale; the next heartbeat returns the new one."
    MISMATCHED_ENDPOINT_TYPE = 114, FINAL, "The request was sent to the wrong type of endpoint."
    UNSUPPORTED_ENDPOINT_TYPE = 115, FINAL, "The type of endpoint is not supported."
    UNKNOWN_CONTROLLER_ID = 116, FINAL, "No controller of this id is known."
    UNKNOWN_SUBSCRIPTION_ID = 117, FINAL, "The telemetry subscription is unknown or outdated."
    TELEMETRY_TOO_LARGE = 118, FINAL, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, FINAL, "The registration of the broker is invalid."
    TRANSACTION_ABORTABLE = 120, FINAL, "The transaction failed; abort it to go on with the same transactional id."
    INVALID_RECORD_STATE = 121, FINAL, "The record is not in a state that can be acknowledged."
    SHARE_SESSION_NOT_FOUND = 122, RETRY, "No such share session."
    INVALID_SHARE_SESSION_EPOCH = 123, RETRY, "The epoch is not the next one of the share session."
    FENCED_STATE_EPOCH = 124, FINAL, "The state epoch of the share group differs from the coordinator's."
    INVALID_VOTER_KEY = 125, FINAL, "The key of the voter is not that of the receiving replica."
    DUPLICATE_VOTER = 126, FINAL, "The voter is already in the set of voters."
    VOTER_NOT_FOUND = 127, FINAL, "The voter is not in the set of voters."
    INVALID_REGULAR_EXPRESSION = 128, FINAL, "The regular expression is not valid."
    REBOOTSTRAP_REQUIRED = 129, FINAL, "The client's metadata is stale; it must bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, FINAL, "The topology of the streams group is invalid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FINAL, "The epoch of the topology is invalid."
    STREAMS_TOPOLOGY_FENCED = 132, FINAL, "The epoch of the topology is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, RETRY, "This broker has as many share sessions as its groups allow."


ERROR_MESSAGE_LENGTH_MAX: Final = 1000
"""Messages quote names and values of requests, which may have 32,767 bytes, the limit of a string in a response."""


def clipped_message(message: str) -> str:
    """An error message, cut so that it fits into a response."""
    if len(message) <= ERROR_MESSAGE_LENGTH_MAX:
        return message
    return f"{message[:ERROR_MESSAGE_LENGTH_MAX]}… ({len(message)} characters)"


class ApiError(Exception):
    """An error of a response: a code and, where the response has a field for it, a message of bounded length."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        message = None if message is None else clipped_message(message)
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message or self.code.text}"
