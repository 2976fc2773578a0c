"""Time for the other rooms, without reading a clock: timing wheel, delayed operations, scheduled tasks.

Nothing here sleeps or waits. The event loop passes the time to `Timer.advance(now_ms)` and gets the time of the next
call from `Timer.next_expiry_ms()`; a simulator does the same with a `ManualClock`.
"""

from tidelog.timing.clock import Clock, ManualClock
from tidelog.timing.purgatory import DelayedOperation, Purgatory
from tidelog.timing.scheduler import ScheduledTask, Scheduler
from tidelog.timing.task import CallbackTask, TimerTask
from tidelog.timing.timer import Timer
from tidelog.timing.wheel import TimingWheel

__all__ = [
    "CallbackTask",
    "Clock",
    "DelayedOperation",
    "ManualClock",
    "Purgatory",
    "ScheduledTask",
    "Scheduler",
    "Timer",
    "TimerTask",
    "TimingWheel",
]
