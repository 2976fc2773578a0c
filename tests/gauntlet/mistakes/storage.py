"""Mistakes in storage: recovery after a crash, indexes, producer snapshots, retention, compaction, flushes."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.planting import mistake

_LOADER: Final = "tidelog.storage.loading.loader:_LogLoader"

MISTAKES: Final = (
    mistake(
        "recovery takes a batch whose checksum is wrong",
        "storage",
        "tidelog.storage.loading._rebuilding:_BatchReader._damaged",
        "if found == stored:",
        "if True:",
    ),
    mistake(
        "the recovery point is at the end of the log after a crash",
        "storage",
        f"{_LOADER}.load",
        "next_offset if self._is_clean and had_segments else min(self.recovery_point, next_offset)",
        "next_offset",
    ),
    mistake(
        "recovery begins behind the segment with the recovery point",
        "storage",
        f"{_LOADER}._recover",
        "max(bisect_right(bases, self.recovery_point) - 1, 0)",
        "bisect_right(bases, self.recovery_point)",
        (f"{_LOADER}._recover", "if next_offset is not None:", "if next_offset is not None or True:"),
    ),
    mistake(
        "recovery trusts an index that cannot be right",
        "storage",
        f"{_LOADER}._suspects",
        "if problem is not None:",
        "if False:",
    ),
    mistake(
        "a truncation keeps the producers of what was cut off",
        "storage",
        "tidelog.storage.log._log:Log.truncate_to",
        "rebuild_producer_state(self.producer_state, list(segments), start_offset, offset, now_ms)",
        "self.producer_state.map_end_offset = offset",
    ),
    mistake(
        "a restarted broker knows only the last batch of each producer",
        "storage",
        "tidelog.storage.log._appender:Appender._check_producer",
        "if state.is_recall_due and entry is not None:",
        "if False:",
    ),
    mistake(
        "retention deletes records that are not committed",
        "storage",
        "tidelog.storage.log._retention:count_due",
        "if positions.high_watermark < end_offset or (following is None and segment.size_bytes == 0):",
        "if following is None:",
    ),
    mistake(
        "records count as flushed before they are",
        "storage",
        "tidelog.storage.log._staging:Staging.write",
        "if end_offset < flush_state.due_offset:",
        "if True:",
    ),
    mistake(
        "compaction reaches into open transactions",
        "storage",
        "tidelog.storage.cleaner.planning:_first_uncleanable",
        "min(log.last_stable_offset, log.active_segment.base_offset, limit)",
        "min(log.active_segment.base_offset, limit)",
    ),
    mistake(
        "compaction removes the marker of a committed transaction that still has records",
        "storage",
        "tidelog.storage.cleaner.transactions:TransactionTracker.on_control",
        "            self._committed.remove(header.producer_id)\n            return False\n",
        "            self._committed.remove(header.producer_id)\n            return True\n",
    ),
)
