"""Independent changes by way of `multi`: together while none of them is refused, one by one otherwise.

A transaction costs a sync or a round trip however many operations it has. So operations that need not be atomic go
together, and when one of them is refused, and with it the whole transaction, each is submitted again alone.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from tidelog.metadata.errors import BadVersionError, ControllerMovedError, NodeError, NoNodeError, StoreError
from tidelog.metadata.store import Check, Operation, Outcome, Result

OPERATIONS_MAX: Final = 500
"""Operations in a transaction of independent ones. Beyond this the cost of a transaction is no longer what counts."""

T = TypeVar("T")
Multi = Callable[[Sequence[Operation]], list[Result]]


def submit_each(multi: Multi, operations: Sequence[Operation], fence: Check | None) -> list[Outcome]:
    """`Store.submit_all` for a store whose `multi` is a function call."""
    outcomes: list[Outcome] = []
    for batch in batches(operations):
        try:
            outcomes += submit_fenced(multi, batch, fence)
        except NodeError:
            outcomes += [_submit_one(multi, operation, fence) for operation in batch]
    return outcomes


def submit_fenced(multi: Multi, operations: Sequence[Operation], fence: Check | None) -> list[Result]:
    """`multi`, if the check of `fence` holds; `ControllerMovedError` if it does not."""
    if fence is None:
        return multi(operations)
    try:
        return multi([fence, *operations])[1:]
    except NodeError as error:
        moved = fenced_error(fence, error)
        if moved is None:
            raise
        raise moved from error


def fenced_error(fence: Check, error: StoreError) -> ControllerMovedError | None:
    """What to raise if `error` is that of the fence."""
    if isinstance(error, BadVersionError | NoNodeError) and error.path == fence.path:
        return ControllerMovedError(f"a change was refused because there is a newer controller: {error}")
    return None


def batches(operations: Sequence[Operation]) -> Iterator[Sequence[Operation]]:
    for start in range(0, len(operations), OPERATIONS_MAX):
        yield operations[start : start + OPERATIONS_MAX]


def none_if_missing(read: Callable[[str], T], path: str) -> T | None:
    """What `read` returns for the node at `path`; None if there is no such node."""
    try:
        return read(path)
    except NoNodeError:
        return None


def _submit_one(multi: Multi, operation: Operation, fence: Check | None) -> Outcome:
    try:
        (result,) = submit_fenced(multi, [operation], fence)
    except NodeError as error:
        return error
    return result
