"""Mistakes in the delivery of delayed records."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.planting import mistake

_DELAYED: Final = "tidelog.replication.delayed:DelayedPartition"

MISTAKES: Final = (
    mistake(
        "a follower keeps the delayed records that were delivered",
        "delayed",
        f"{_DELAYED}._take_effect",
        "for entry in change.removed:",
        "for entry in change.removed if self.partition.is_leader else ():",
    ),
    mistake(
        "delayed records are forgotten when the setting is switched off",
        "delayed",
        "tidelog.storage.log._log:Log.has_changes",
        "return self._appender.has_changes",
        "return False",
    ),
    mistake(
        "a delayed record is compacted while it waits",
        "delayed",
        f"{_DELAYED}.floor_due",
        "return retained_from - retained_from % LOCATION_STEP",
        "return self.applied_offset - self.applied_offset % LOCATION_STEP",
    ),
    mistake(
        "a new leader delivers before it knows what was delivered",
        "delayed",
        f"{_DELAYED}.may_change",
        "if not partition.is_leader or not partition.is_settled:",
        "if not partition.is_leader:",
        (
            f"{_DELAYED}.may_change",
            "if self._next < partition.replica_set.leader_epoch_start_offset:",
            "if False:",
        ),
    ),
    mistake(
        "the delayed records of an aborted transaction are delivered",
        "delayed",
        f"{_DELAYED}._end_transaction",
        "if parse_end_transaction_marker(record).is_commit:",
        "if True:",
    ),
    mistake(
        "a leader delivers again while its last delivery is not committed",
        "delayed",
        f"{_DELAYED}.may_change",
        "return self._own_epoch != partition.leader_epoch or self._next >= self._own_end",
        "return True",
    ),
)
