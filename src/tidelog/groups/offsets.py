"""The committed offsets of one group, and those of transactions that are not ended yet.

`Group` owns one; only replay changes it, so that it always matches the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, ItemsView
from typing import Final

from tidelog.groups.schemas import (
    CommittedOffset,
    SchemaError,
    commit_timestamp,
    read_offset_value,
    read_partition_key,
    topic_prefix,
)

logger = logging.getLogger(__name__)

_VERSION_WITH_EXPIRY: Final = b"\0\1"
_SUPERSEDED: Final = None
"""In place of a pending offset: a later commit has overtaken it, but its transaction is still open."""


class OffsetStore:
    """Offsets by partition key, as the log has them."""

    __slots__ = ("_pending", "_sequence", "_values")

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._pending: dict[int, dict[bytes, tuple[int, bytes | None]]] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._values)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a committed nor a pending offset."""
        return not self._values and not self._pending

    # --- replay ---

    def put(self, key: bytes, value: bytes) -> None:
        self._values[key] = value
        if self._pending:
            self._sequence += 1
            self._supersede(key, self._sequence)

    def remove(self, key: bytes) -> None:
        """Remove a committed offset, and the pending ones of open transactions."""
        self._values.pop(key, None)
        if self._pending:
            for producer_id, offsets in list(self._pending.items()):
                offsets.pop(key, None)
                if not offsets:
                    del self._pending[producer_id]

    def put_pending(self, producer_id: int, key: bytes, value: bytes) -> None:
        """Add an offset that takes effect when the producer's transaction commits."""
        self._sequence += 1
        self._pending.setdefault(producer_id, {})[key] = (self._sequence, value)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Apply or drop pending offsets. One that a later commit in the log has replaced is dropped."""
        for key, (sequence, value) in self._pending.pop(producer_id, {}).items():
            if is_commit and value is not _SUPERSEDED:
                self._values[key] = value
                self._supersede(key, sequence)

    def _supersede(self, key: bytes, sequence: int) -> None:
        for offsets in self._pending.values():
            pending = offsets.get(key)
            if pending is not None and pending[0] < sequence:
                offsets[key] = (sequence, _SUPERSEDED)

    # --- questions ---

    def get(self, key: bytes) -> CommittedOffset | None:
        value = self._values.get(key)
        return None if value is None else read_committed(value)

    def is_pending(self, key: bytes) -> bool:
        """Whether an open transaction has committed this partition."""
        return any(key in offsets for offsets in self._pending.values())

    def has_pending_of(self, producer_id: int) -> bool:
        return producer_id in self._pending

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def keys(self) -> list[bytes]:
        """Keys of everything committed or pending."""
        return list(dict.fromkeys((*self._values, *(key for offsets in self._pending.values() for key in offsets))))

    def has_only(self, keys: Collection[bytes]) -> bool:
        """Whether there are no other keys than these."""
        wanted = set(keys)
        return wanted.issuperset(self._values) and all(wanted.issuperset(offsets) for offsets in self._pending.values())

    def items(self) -> ItemsView[bytes, bytes]:
        """All committed offsets by partition key, encoded as in the log; `read_committed` decodes them."""
        return self._values.items()

    def pending_keys(self) -> frozenset[bytes]:
        """Keys of partitions that open transactions have committed."""
        return frozenset(key for offsets in self._pending.values() for key in offsets)

    def keys_of_topic(self, topic: str) -> list[bytes]:
        """Keys of a topic's partitions, committed or pending."""
        prefix = topic_prefix(topic)
        size = len(prefix) + 4
        keys = dict.fromkeys(key for key in self._values if key.startswith(prefix) and len(key) == size)
        for offsets in self._pending.values():
            keys.update(dict.fromkeys(key for key in offsets if key.startswith(prefix) and len(key) == size))
        return list(keys)

    def expired(
        self, now_ms: int, retention_ms: int, since_ms: int | None, is_subscribed: Callable[[str], bool]
    ) -> list[bytes]:
        """Keys of offsets that are past their retention.

        It counts from `since_ms`, when the group lost its last member, or else from each commit. Offsets that named
        their own expiry (OffsetCommit 2 to 4) go by that.
        """
        found = []
        latest_ms = now_ms - retention_ms
        is_past = since_ms is not None and since_ms <= latest_ms
        for key, value in self._values.items():
            if value[:2] == _VERSION_WITH_EXPIRY:
                committed = read_committed(value)
                is_over = committed is not None and now_ms >= committed.expire_timestamp
            else:
                is_over = is_past if since_ms is not None else commit_timestamp(value) <= latest_ms
            if is_over and not is_subscribed(read_partition_key(key)[0]) and not self.is_pending(key):
                found.append(key)
        return found


def read_committed(value: bytes) -> CommittedOffset | None:
    """Decode an offset; None for one of an unknown version or that is malformed."""
    try:
        return read_offset_value(value)
    except SchemaError as error:
        logger.error("a committed offset is skipped: %s", error)
        return None
