"""A share session with one broker: which partitions it reads for this member, as of the last request.

The requests of a session are numbered. 0 begins one, and must not acknowledge anything; -1 ends it. A session lives on
one connection: after an error, or when the broker does not know it, another one begins.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from tidelog.client.aio.share.types import TopicIdPartition

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = (1 << 31) - 1


class SessionChanges(NamedTuple):
    """What the next fetch has to say."""

    epoch: int
    added: list[TopicIdPartition]
    forgotten: list[TopicIdPartition]


class ShareSession:
    """The client's side of one session."""

    __slots__ = ("_sent", "epoch", "partitions")

    def __init__(self) -> None:
        self.epoch = INITIAL_EPOCH
        self.partitions: frozenset[TopicIdPartition] = frozenset()
        """What the broker reads for this member."""
        self._sent: frozenset[TopicIdPartition] = frozenset()

    @property
    def is_open(self) -> bool:
        """Whether the broker knows the session, as far as this side can tell."""
        return self.epoch != INITIAL_EPOCH

    def fetch(self, wanted: Collection[TopicIdPartition]) -> SessionChanges:
        """The next request is a fetch of these."""
        self._sent = frozenset(wanted)
        added = [each for each in wanted if each not in self.partitions]
        return SessionChanges(self.epoch, added, sorted(self.partitions - self._sent))

    def acknowledge(self) -> int:
        """The next request acknowledges only; returns its epoch."""
        self._sent = self.partitions
        return self.epoch

    def answered(self) -> None:
        """The broker has taken the last request."""
        self.partitions = self._sent
        self.epoch = self.epoch + 1 if self.epoch < _LAST_EPOCH else 1

    def reset(self) -> None:
        """Begin again."""
        self.epoch = INITIAL_EPOCH
        self.partitions = frozenset()
