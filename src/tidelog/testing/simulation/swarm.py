"""How the cluster and the clients of a seed differ from those of others: sizes, replicas, clocks, kinds of clients.

Everything is drawn before the simulation runs. Each seed has some of the variety, so that each part of it is alone in
some seeds, and together with each other part in others.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

_SETTINGS: Final = {
    # A follower that catches up takes many fetches; batches are still sent whole.
    "replica.fetch.max.bytes": (None, "200"),
    "replica.lag.time.max.ms": (None, "1600"),
    "offsets.topic.num.partitions": (None, "1"),
    "transaction.state.log.num.partitions": (None, "1"),
    "num.replica.fetchers": (None, None, "2"),
    "log.segment.bytes": (None, None, "2000"),
    "log.index.interval.bytes": (None, "100"),
    "auto.leader.rebalance.enable": (None, "false"),
    "leader.imbalance.check.interval.seconds": (None, "2"),
    "log.flush.interval.messages": (None, None, None, "3", "1"),
    "min.insync.replicas": (None, "2"),
}
_CLIENTS: Final = {
    "plain producer": 0.6,
    "leader-only producer": 0.5,
    "pipelining producer": 0.4,
    "second transactional producer": 0.4,
    "reader": 0.6,
    "classic group": 0.5,
    "consumer group": 0.4,
    "read-process-write": 0.4,
    "rival transactional producers": 0.4,
    "static members": 0.25,
    "static consumers": 0.2,
    "trimmed topic": 0.35,
    "remade topic": 0.2,
}
"""Beside the idempotent and a transactional producer, a reader of committed records and the administrator."""
LATE_REQUESTS: Final = "late requests"
COMPACTION: Final = "compaction"
SHARES: Final = "share group"
"""Features that are no clients, by the names under which they can be left out."""
_DELAYED_SHARE: Final = 0.12
_CLEANED_SHARE: Final = 0.3
_HAUNTED_SHARE: Final = 0.5
_COMPACTED_SHARE: Final = 0.6
"""Of those with delayed records."""


@dataclass(frozen=True)
class Swarm:
    """What one seed consists of."""

    settings: dict[str, str] = field(default_factory=dict)
    """Of every broker."""
    replicas: int = 3
    clients: frozenset[str] = frozenset(_CLIENTS)
    skews_ms: tuple[int, ...] = ()
    """How wrong the clock of each broker is from the start."""
    has_delayed: bool = False
    """Whether there are delayed records. They cost half as much again as all the rest."""
    is_compacted: bool = False
    """Whether the topic of delayed records is compacted."""
    has_shares: bool = False
    """Whether there is a share group: only where it is asked for."""
    is_cleaned: bool = False
    """Whether logs are compacted, those of coordinators and one of balances among them."""
    is_haunted: bool = False
    """Whether requests come late, when their senders were replaced."""

    @property
    def features(self) -> list[str]:
        """What can be left out of it: kinds of clients, and what goes on beside them."""
        beside = ((LATE_REQUESTS, self.is_haunted), (COMPACTION, self.is_cleaned), (SHARES, self.has_shares))
        return [*sorted(self.clients), *(name for name, is_there in beside if is_there)]

    def without(self, features: Collection[str]) -> Swarm:
        """The same with less in it."""
        return replace(
            self,
            clients=self.clients.difference(features),
            is_haunted=self.is_haunted and LATE_REQUESTS not in features,
            is_cleaned=self.is_cleaned and COMPACTION not in features,
            has_shares=self.has_shares and SHARES not in features,
        )


def draw_swarm(seed: int, brokers: int) -> Swarm:
    chance = random.Random(f"swarm {seed}")
    drawn = {name: chance.choice(values) for name, values in _SETTINGS.items()}
    replicas_max = min(3, brokers)
    is_skewed = chance.random() < 0.3
    return Swarm(
        settings={name: value for name, value in drawn.items() if value is not None},
        replicas=chance.choice((replicas_max, replicas_max, max(replicas_max - 1, 1))),
        clients=frozenset(name for name, share in _CLIENTS.items() if chance.random() < share),
        skews_ms=tuple(chance.randrange(-5_000, 5_000) if is_skewed else 0 for _ in range(brokers)),
        # Drawn from a stream of its own: a seed without them is as it was before there were delayed records.
        has_delayed=random.Random(f"delayed {seed}").random() < _DELAYED_SHARE,
        is_compacted=random.Random(f"compaction {seed}").random() < _COMPACTED_SHARE,
        is_cleaned=random.Random(f"cleaning {seed}").random() < _CLEANED_SHARE,
        is_haunted=random.Random(f"ghosts {seed}").random() < _HAUNTED_SHARE,
    )
