"""What a decoder of the hot path makes of a struct: a tuple with some of its fields. See `spans`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """The tuple that a struct is read as."""

    columns: tuple[str, ...]
    """Names of fields. `"topic|topic_id"` is the one that the version has; without any, the default of the first."""
    make: type[tuple[Any, ...]] | None = tuple
    """The type of the tuple; None if the struct is read as its only column."""
    inner: str | None = None
    """The array whose rows stand in place of this one's, each behind the columns of this one."""
    as_bytes: tuple[str, ...] = ()
    """Strings that stay the bytes that they are in the request. They are checked to be UTF-8."""
    usually_empty: tuple[str, ...] = ()
    """Of the request itself: arrays that have no element in most requests; the others have one."""
