"""The topics of the cluster, as consumer groups need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidelog.groups.consumer.group import TopicInfo


class Catalog(Protocol):
    """The edge gives it to the shards; it reads the broker's metadata image."""

    @property
    def version(self) -> int:
        """Grows with each change of topics, and of what members may see of them."""
        ...

    def topic(self, name: str) -> TopicInfo | None: ...

    def names(self) -> Iterable[str]:
        """All topics, for subscriptions by pattern."""
        ...


class NoTopics:
    """A cluster without topics."""

    version = 0

    def topic(self, _name: str) -> TopicInfo | None:
        return None

    def names(self) -> Iterable[str]:
        return ()
