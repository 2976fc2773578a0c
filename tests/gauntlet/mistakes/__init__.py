"""The table of mistakes."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.mistakes import (
    clients,
    controller,
    delayed,
    groups,
    metadata,
    replication,
    share,
    storage,
    transactions,
)
from tests.gauntlet.planting import Mistake

MISTAKES: Final[tuple[Mistake, ...]] = (
    *replication.MISTAKES,
    *controller.MISTAKES,
    *groups.MISTAKES,
    *transactions.MISTAKES,
    *delayed.MISTAKES,
    *share.MISTAKES,
    *storage.MISTAKES,
    *metadata.MISTAKES,
    *clients.MISTAKES,
)

FOUND_BY_FEW_SEEDS: Final = (
    "a follower truncates to its high watermark instead of by leader epoch",
    "a leader does not say where the log of a follower has diverged",
    "a leader serves fetches of any leader epoch",
    "a follower joins the ISR with its first fetch",
    "the high watermark moves before the followers have the records",
    "records are committed with fewer than min.insync.replicas",
    "a follower's high watermark falls to that of a new leader",
    "a broker obeys a LeaderAndIsr of a former leader epoch",
    "a leader from outside the ISR is elected though the topic forbids it",
    "the controller writes a topic without its id",
    "a reassignment completes before its new replicas are in sync",
    "a coordinator replies before its records are committed",
    "a commit of an old generation is accepted",
    "a SyncGroup of an old generation is accepted",
    "a partition is assigned before its last owner has revoked it",
    "a log takes a marker of a coordinator that was replaced",
    "a coordinator answers a producer that was replaced",
    "the last stable offset passes open transactions",
    "a new leader delivers before it knows what was delivered",
    "a retried batch gets a new sequence number",
)
"""Those that `make test-long` lets the simulator look for: a run of all of them takes an hour."""
