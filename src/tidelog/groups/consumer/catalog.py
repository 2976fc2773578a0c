"""The topics of the cluster, as consumer groups need to know them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidelog.groups.consumer.group import TopicInfo


class Catalog(Protocol):
    """Given to the shards by the edge; the broker's image of the cluster stands behind it."""

    @property
    def version(self) -> int:
        """Grows with each change of topics."""
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
