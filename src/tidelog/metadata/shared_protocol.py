"""The protocol between a shared tree and its clients, over a Unix socket.

A message is a length of four bytes and a value of `_values`:

    to the server   [request id, method, arguments …]
    to the client   [request id, True, result]  or  [request id, False, error …]
                    [0, kind, path]             an event that a watch of the client was set for

Replies come in the order of the requests. The first request is `HELLO` with the session timeout in milliseconds; its
result is the session id. `PING` does nothing but show that the client is alive. Events of a change come before the
reply to the request that made it.
"""

from collections.abc import Callable
from enum import IntEnum
from struct import Struct
from typing import Any, Final

from tidelog.metadata._values import Value, decode_value, encode_value
from tidelog.metadata.errors import (
    BadPathError,
    BadVersionError,
    ControllerMovedError,
    NoChildrenForEphemeralsError,
    NodeError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    StoreError,
    StoreUnavailableError,
)
from tidelog.metadata.store import Check, Create, Delete, EventKind, NodeData, Operation, Outcome, Set, Stat, WatchEvent

MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
LENGTH: Final = Struct(">I")
EVENT_ID: Final = 0
_STAT: Final = Struct(">10q")
_EVENT_KINDS: Final = tuple(EventKind)


class Method(IntEnum):
    HELLO = 0
    PING = 1
    GET_MANY = 2
    """Paths, whether to watch."""
    EXISTS = 3
    """Path, whether to watch."""
    CHILDREN = 4
    """Path, whether to watch."""
    CHILDREN_MANY = 5
    """Paths."""
    MULTI = 6
    """Operations."""
    SUBMIT_ALL = 7
    """Operations, the fence or None."""


def frame(message: Value) -> bytes:
    """A message, ready to be sent."""
    payload = encode_value(message)
    if len(payload) > MESSAGE_BYTES_MAX:
        raise StoreUnavailableError(f"a message of {len(payload)} bytes exceeds the limit of {MESSAGE_BYTES_MAX}")
    return LENGTH.pack(len(payload)) + payload


def read_message(payload: bytes) -> list[Any]:
    """The parts of a message. Raises `ValueError` for a malformed one."""
    message = decode_value(payload)
    if not isinstance(message, list) or len(message) < 2 or type(message[0]) is not int:
        raise ValueError("a message is a list that starts with a request id")
    return message


def expect(value: object, kind: type) -> Any:
    """`value`, if it is of this type and no other. Raises `ValueError`."""
    if type(value) is not kind:
        raise ValueError(f"{kind.__name__} expected, not {type(value).__name__}")
    return value


def texts(value: object) -> list[str]:
    """A list of text. Raises `ValueError`."""
    return [expect(item, str) for item in expect(value, list)]


def stat_value(stat: Stat) -> bytes:
    return _STAT.pack(*stat)


def read_stat(value: object) -> Stat:
    data = expect(value, bytes)
    if len(data) != _STAT.size:
        raise ValueError(f"a stat has {_STAT.size} bytes, not {len(data)}")
    return Stat._make(_STAT.unpack(data))


def node_value(node: NodeData | None) -> Value:
    return None if node is None else [node[0], stat_value(node[1])]


def read_node(value: Any) -> NodeData | None:
    if value is None:
        return None
    data, stat = expect(value, list)
    return expect(data, bytes), read_stat(stat)


def operation_value(operation: Operation) -> Value:
    return [_OPERATIONS.index(type(operation)), *operation]


def read_operation(value: object) -> Operation:
    """Raises `ValueError`."""
    fields = expect(value, list)
    try:
        kind = _OPERATIONS[expect(fields[0], int)]
        types = _FIELD_TYPES[kind]
    except IndexError:
        raise ValueError("there is no such operation") from None
    if len(fields) != len(types) + 1:
        raise ValueError(f"{kind.__name__} has {len(types)} fields, not {len(fields) - 1}")
    operation: Operation = kind(*map(expect, fields[1:], types))
    return operation


def event_value(event: WatchEvent) -> Value:
    return [EVENT_ID, _EVENT_KINDS.index(event.kind), event.path]


def read_event(message: list[Any]) -> WatchEvent:
    _, kind, path = message
    return WatchEvent(_EVENT_KINDS[expect(kind, int)], expect(path, str))


def outcome_value(outcome: Outcome) -> Value:
    """A result of an operation is text, bytes or None; an error is a list."""
    if isinstance(outcome, StoreError):
        return error_value(outcome)
    return stat_value(outcome) if isinstance(outcome, Stat) else outcome


def read_outcome(value: Any) -> Outcome:
    if isinstance(value, list):
        return read_error(value)
    return read_stat(value) if isinstance(value, bytes) else value


def error_value(error: StoreError) -> list[Value]:
    for number, (kind, fields, _) in enumerate(_ERRORS):
        if isinstance(error, kind):
            return [number, *fields(error)]
    return [len(_ERRORS) - 1, str(error)]


def read_error(value: list[Any]) -> StoreError:
    number, *fields = value
    error: StoreError = _ERRORS[expect(number, int)][2](*fields)
    return error


_OPERATIONS: Final[tuple[type[Operation], ...]] = (Create, Set, Delete, Check)
_FIELD_TYPES: Final[dict[type[Operation], tuple[type, ...]]] = {
    Create: (str, bytes, bool, bool),
    Set: (str, bytes, int),
    Delete: (str, int),
    Check: (str, int),
}


def _path(error: Any) -> list[Value]:
    return [error.path]


def _text(error: Any) -> list[Value]:
    return [str(error)]


_ERRORS: Final[tuple[tuple[type[StoreError], Callable[[Any], list[Value]], Callable[..., StoreError]], ...]] = (
    (NodeExistsError, _path, NodeExistsError),
    (NoNodeError, _path, NoNodeError),
    (BadVersionError, lambda error: [error.path, error.expected, error.found], BadVersionError),
    (NotEmptyError, _path, NotEmptyError),
    (NoChildrenForEphemeralsError, _path, NoChildrenForEphemeralsError),
    (BadPathError, lambda error: [error.path, error.problem], BadPathError),
    (NodeError, lambda error: [error.path, error.problem], NodeError),
    (ControllerMovedError, _text, ControllerMovedError),
    (SessionExpiredError, _text, SessionExpiredError),
    (StoreUnavailableError, _text, StoreUnavailableError),
)
