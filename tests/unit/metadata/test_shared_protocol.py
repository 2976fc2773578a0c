"""Operations, results, events and errors cross the socket unchanged."""

from typing import Any

import pytest

from tidelog.metadata.errors import (
    BadPathError,
    BadVersionError,
    ControllerMovedError,
    MalformedNodeError,
    NoChildrenForEphemeralsError,
    NodeError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    StoreCorruptError,
    StoreError,
    StoreUnavailableError,
)
from tidelog.metadata.shared_protocol import (
    LENGTH,
    error_value,
    event_value,
    frame,
    operation_value,
    outcome_value,
    read_error,
    read_event,
    read_message,
    read_operation,
    read_outcome,
)
from tidelog.metadata.store import Check, Create, Delete, EventKind, Operation, Set, Stat, WatchEvent


def carried(value: Any) -> list:
    """A list as the other side reads it."""
    return read_message(frame([7, value])[LENGTH.size :])[1]


@pytest.mark.parametrize(
    "operation",
    [Create("/a", b"\0", True, True), Create("/b"), Set("/ä", b"x", 7), Delete("/a", 2**31 - 1), Check("/")],
)
def test_operations(operation: Operation) -> None:
    assert read_operation(carried(operation_value(operation))) == operation
    assert type(read_operation(carried(operation_value(operation)))) is type(operation)


@pytest.mark.parametrize(
    "wrong", [[], [9], ["x"], [0, "/a"], [1, "/a", "text", 0], [2, "/a", True], None, [3, b"/a", 1]]
)
def test_what_is_no_operation_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"no such operation|fields|expected"):
        read_operation(wrong)


@pytest.mark.parametrize(
    ("error", "read_as"),
    [
        (NodeExistsError("/a"), NodeExistsError),
        (NoNodeError("/a"), NoNodeError),
        (BadVersionError("/a", 1, 2), BadVersionError),
        (NotEmptyError("/a"), NotEmptyError),
        (NoChildrenForEphemeralsError("/a"), NoChildrenForEphemeralsError),
        (BadPathError("/\ud800", "half a surrogate pair"), BadPathError),
        (MalformedNodeError("/a", "malformed"), NodeError),
        (ControllerMovedError("moved"), ControllerMovedError),
        (SessionExpiredError("over"), SessionExpiredError),
        (StoreCorruptError("damaged"), StoreUnavailableError),
        (StoreError("other"), StoreUnavailableError),
    ],
)
def test_errors(error: StoreError, read_as: type[StoreError]) -> None:
    found = read_error(carried(error_value(error)))
    assert type(found) is read_as
    assert str(found) == str(error)
    if isinstance(error, BadVersionError):
        assert isinstance(found, BadVersionError)
        assert (found.expected, found.found) == (1, 2)


@pytest.mark.parametrize("result", ["/a", None, Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)])
def test_results(result: Any) -> None:
    assert read_outcome(carried(outcome_value(result))) == result


@pytest.mark.parametrize("kind", list(EventKind))
def test_events(kind: EventKind) -> None:
    event = WatchEvent(kind, "/a")
    assert read_event(read_message(frame(event_value(event))[LENGTH.size :])) == event


@pytest.mark.parametrize("wrong", [b"", b"\0", frame([])[4:], frame([1])[4:], frame(["x", 1])[4:], frame(b"x")[4:]])
def test_what_is_no_message_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match=r"cut off|a message is a list"):
        read_message(wrong)
