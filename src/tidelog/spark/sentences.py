"""Errors as users see them: only the message, without the stack of our code.

Spark shows what a Python source or sink raised together with its whole stack, and the causes before it, so that the
sentence which says what to do stands below pages of frames. Frames do not help with a misspelt option or a lost
record; for unexpected errors they stay. The readers and writers, which Spark calls, put it around what they do.
"""

from contextlib import ContextDecorator
from functools import cache
from types import TracebackType


class ForeseenError(Exception):
    """An error of the source or the sink whose text says what happened and what to change."""


class plainly(ContextDecorator):  # noqa: N801 - used as a statement
    """`with plainly():` or `@plainly()`: errors whose text says all come out of it without frames and causes."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and isinstance(error, _foreseen()):
            raise error.with_traceback(None) from None


@cache
def _foreseen() -> tuple[type[Exception], ...]:
    """Imported when something has gone wrong: most readers and writers never need these modules."""
    from tidelog.client.errors import ClientError
    from tidelog.records.errors import CorruptRecordError
    from tidelog.wire.errors import ApiError

    return (ForeseenError, CorruptRecordError, ClientError, ApiError)
