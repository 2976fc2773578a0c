"""How a client reacts to an error code: one table for producers, consumers, admins and coordinator lookups.

    RETRY             the same request may succeed later
    REFRESH_METADATA  the same, once the client knows the new leader or topic
    FIND_COORDINATOR  the same, once the client has found the new coordinator of the group or transaction
    ABORT             the open transaction is lost; after an abort the producer goes on
    FATAL             no repetition helps; for a transactional producer it is the end

Codes that are not listed are FATAL, or RETRY where Kafka calls them retriable.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from tidelog.client.errors import ApiError, BrokerUnavailable
from tidelog.wire.errors import ErrorCode


class Reaction(Enum):
    """See the module's text."""

    RETRY = "retry"
    REFRESH_METADATA = "refresh metadata"
    FIND_COORDINATOR = "find coordinator"
    ABORT = "abort"
    FATAL = "fatal"

    @property
    def is_retriable(self) -> bool:
        """Whether the same request should be sent again."""
        return self in _RETRIABLE


_RETRIABLE: Final = frozenset({Reaction.RETRY, Reaction.REFRESH_METADATA, Reaction.FIND_COORDINATOR})

REACTIONS: Final[Mapping[int, Reaction]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.REFRESH_METADATA,
    ErrorCode.LEADER_NOT_AVAILABLE: Reaction.REFRESH_METADATA,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Reaction.REFRESH_METADATA,
    ErrorCode.REPLICA_NOT_AVAILABLE: Reaction.REFRESH_METADATA,
    ErrorCode.NETWORK_EXCEPTION: Reaction.REFRESH_METADATA,
    ErrorCode.KAFKA_STORAGE_ERROR: Reaction.REFRESH_METADATA,
    ErrorCode.LISTENER_NOT_FOUND: Reaction.REFRESH_METADATA,
    ErrorCode.FENCED_LEADER_EPOCH: Reaction.REFRESH_METADATA,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Reaction.REFRESH_METADATA,
    ErrorCode.UNKNOWN_TOPIC_ID: Reaction.REFRESH_METADATA,
    ErrorCode.INCONSISTENT_TOPIC_ID: Reaction.REFRESH_METADATA,
    ErrorCode.NOT_CONTROLLER: Reaction.REFRESH_METADATA,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: Reaction.REFRESH_METADATA,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: Reaction.REFRESH_METADATA,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.TRANSACTION_ABORTABLE: Reaction.ABORT,
    ErrorCode.INVALID_PRODUCER_EPOCH: Reaction.ABORT,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Reaction.ABORT,
    ErrorCode.UNKNOWN_PRODUCER_ID: Reaction.ABORT,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.ABORT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: Reaction.ABORT,
    ErrorCode.OPERATION_NOT_ATTEMPTED: Reaction.ABORT,
    ErrorCode.FENCED_INSTANCE_ID: Reaction.ABORT,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.ABORT,
    ErrorCode.ILLEGAL_GENERATION: Reaction.ABORT,
}

_BY_NUMBER: Final[Mapping[int, ErrorCode]] = {int(code): code for code in ErrorCode}


def error_code_of(number: int) -> ErrorCode:
    """The code of a number on the wire; one that is newer than ours is UNKNOWN_SERVER_ERROR."""
    return _BY_NUMBER.get(number, ErrorCode.UNKNOWN_SERVER_ERROR)


def reaction_to(error: int | BaseException) -> Reaction:
    """What to do about an error code, or about what a request raised."""
    if isinstance(error, BaseException):
        if isinstance(error, BrokerUnavailable):
            return Reaction.REFRESH_METADATA
        if not isinstance(error, ApiError):
            return Reaction.FATAL
        error = error.code
    found = REACTIONS.get(error)
    if found is not None:
        return found
    return Reaction.RETRY if error_code_of(error).retriable else Reaction.FATAL


def refusal(code: int, what: object, message: str | None = None) -> ApiError:
    """The error for what a broker refused; a code newer than ours is kept as a number in its text."""
    known = _BY_NUMBER.get(code)
    if known is None:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{what}: {message or f'error code {code}'}")
    return ApiError(known, f"{what}: {message or known.text}")


def check_code(code: int, what: object, message: str | None = None) -> None:
    """Raise the refusal of `what`, unless the code is NONE."""
    if code != ErrorCode.NONE:
        raise refusal(code, what, message)
