"""The parts of a broker that need neither metadata nor an identity: time, threads, logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.broker.hosting.cleaner import CleanerService
from tidelog.broker.runtime.background import BackgroundPool, Flusher
from tidelog.broker.runtime.slices import TimeSlices
from tidelog.broker.runtime.timer_driver import TimerDriver
from tidelog.broker.surroundings import Surroundings
from tidelog.config import BrokerConfig
from tidelog.storage.directories.manager import LogManager, LogManagerConfig
from tidelog.storage.errors import LogDirFailure
from tidelog.timing import Scheduler, Timer


class Foundation:
    """What all other parts stand on."""

    __slots__ = (
        "background",
        "cleaning",
        "clock",
        "flusher",
        "log_manager",
        "loop",
        "scheduler",
        "slices",
        "surroundings",
        "timer",
        "timer_driver",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: BrokerConfig,
        surroundings: Surroundings,
        on_log_dir_failure: Callable[[LogDirFailure], None],
        on_timer_failure: Callable[[object, Exception], None],
    ) -> None:
        self.loop = loop
        self.surroundings = surroundings
        self.clock = clock = surroundings.clock
        self.timer = Timer(clock.monotonic_ms(), on_error=on_timer_failure)
        self.timer_driver = TimerDriver(loop, self.timer, clock)
        self.scheduler = Scheduler(self.timer, clock)
        self.slices = TimeSlices(loop, surroundings.processor_seconds)
        self.background = BackgroundPool(loop, config.background_threads)
        self.flusher = Flusher(self.background, clock, on_log_dir_failure)
        self.log_manager = LogManager(
            LogManagerConfig.of(config),
            clock,
            self.scheduler,
            background=self.background,
            flush=self.flusher.flush,
            on_failure=on_log_dir_failure,
        )
        self.cleaning = CleanerService(
            config,
            self.log_manager,
            clock,
            self.scheduler,
            self.background,
            on_log_dir_failure,
            surroundings.new_cleaner_worker,
        )
