"""Time for the other rooms, without reading a clock: timing wheel, delayed operations, scheduled tasks.

Nothing here sleeps or asks what time it is. The event loop hands the time in, `Timer.advance(now_ms)`, and asks
`Timer.next_expiry_ms()` when to come back; a simulator does the same with a `ManualClock`.
"""

from tidelog.timing.clock import Clock, ManualClock
from tidelog.timing.delayed import DelayedOperation
from tidelog.timing.purgatory import Purgatory
from tidelog.timing.scheduler import ScheduledTask, Scheduler
from tidelog.timing.timer import CallbackTask, Timer, TimerTask
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
