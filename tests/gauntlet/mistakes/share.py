"""Mistakes of share groups: of locks, of what is stored, of fencing, of dead letters."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.planting import mistake

_PARTITION: Final = "tidelog.sharing.partition:SharePartition"
_STATE: Final = "tidelog.sharing.state:ShareStateShard"
_LED: Final = "tidelog.broker.coordinators.share_partitions:SharePartitions"

MISTAKES: Final = (
    mistake(
        "a record that is locked is handed out again",
        "shares",
        "tidelog.sharing.runs:Run.is_acquirable",
        "self.state is AVAILABLE and self.change is None and self.deadline_ms <= now_ms",
        "self.state in (AVAILABLE, ACQUIRED) and self.change is None",
    ),
    mistake(
        "a lock ends at once when another member asks",
        "shares",
        f"{_PARTITION}.expire",
        "run.deadline_ms > now_ms",
        "run.deadline_ms > now_ms + limits.lock_ms",
    ),
    mistake(
        "an acknowledgement is confirmed before it is stored",
        "shares",
        f"{_LED}.acknowledge",
        "    led.waiters[change] = future\n",
        "    future.set_result(ErrorCode.NONE)\n",
    ),
    mistake(
        "the start is stored past records that were released",
        "shares",
        f"{_PARTITION}._start_after",
        "run.target in FINAL",
        "True",
    ),
    mistake(
        "a new leader takes every stored record for available",
        "shares",
        f"{_PARTITION}.__init__",
        "DeliveryState(state) if state in _KEPT else AVAILABLE",
        "AVAILABLE",
    ),
    mistake(
        "a leader that was replaced may write its state",
        "shares",
        f"{_STATE}.write",
        "        _check_leader(leader_epoch, state)\n",
        "        pass\n",
    ),
    mistake(
        "an update replaces what earlier updates have stored",
        "shares",
        "tidelog.sharing.state:ShareState.with_update",
        "combine(self.batches, batches, start)",
        "combine((), batches, start)",
    ),
    mistake(
        "a record is archived without waiting for its dead letter",
        "shares",
        "tidelog.sharing.partition:ShareLimits.failed",
        "ARCHIVING if self.has_dead_letters else ARCHIVED",
        "ARCHIVED",
    ),
    mistake(
        "a new leader forgets the dead letters that another had begun",
        "shares",
        f"{_PARTITION}.__init__",
        "self._old_letters.append((run.first, run.last))",
        "pass",
    ),
    mistake(
        "a released record does not wait",
        "shares",
        f"{_PARTITION}._settle",
        "run.deadline_ms = run.target_deadline_ms",
        "run.deadline_ms = 0",
    ),
)
