"""Replays of dead letters that run behind the pages: how far each is, what it did and who asked for it.

A replay goes on when its page is left. What is here ends with the console; the letters carry who sent them.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tidelog.console.errors import PageError, explain
from tidelog.spark.pipeline.failing.replay import Replay, Replayed

logger = logging.getLogger(__name__)

KEPT_MAX: Final = 100


@dataclass(slots=True, eq=False)
class ReplayRun:
    """One replay. `passed` of `total` offsets are behind it."""

    topic: str
    by: str
    begun_ms: int
    total: int = 0
    passed: int = 0
    done: Replayed | None = None
    failure: Exception | None = None
    task: "asyncio.Task[None] | None" = field(default=None, repr=False)

    @property
    def is_running(self) -> bool:
        """Whether it has neither ended nor failed."""
        return self.done is None and self.failure is None

    async def wait(self, seconds: float) -> None:
        """Wait for its end, at most so long."""
        if self.task is not None:
            await asyncio.wait([self.task], timeout=seconds)


class Replays:
    """The replays of one cluster, the newest first."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._runs: deque[ReplayRun] = deque(maxlen=KEPT_MAX)

    def seen_by(self, user: str | None) -> list[ReplayRun]:
        """The replays that a user asked for; None: all of them."""
        return [each for each in self._runs if user is None or each.by == user]

    def start(self, replay: Replay) -> ReplayRun:
        """Begin a replay. Raises PageError while another one of the same topic runs: it would fence that one."""
        if any(each.is_running and each.topic == replay.dead_letters for each in self._runs):
            raise PageError(
                409, "A replay runs already", f"The dead letters of {replay.dead_letters} are being replayed now."
            )
        run = ReplayRun(replay.dead_letters, replay.by, self._now_ms())
        run.task = asyncio.create_task(_run(run, replay))
        self._runs.appendleft(run)
        return run


async def _run(run: ReplayRun, replay: Replay) -> None:
    try:
        done = run.done = await asyncio.to_thread(_send, run, replay)
        logger.info("%s sent %d dead letters of %s to %s", run.by, done.total, run.topic, sorted(done.sent))
    except Exception as error:
        run.failure = error
        if explain(error) is None:
            logger.exception("the replay of %s by %s failed", run.topic, run.by)
        else:
            logger.warning("the replay of %s by %s failed: %s", run.topic, run.by, error)


def _send(run: ReplayRun, replay: Replay) -> Replayed:
    """Runs in a thread; only this thread changes the numbers of the run."""
    spans = replay.spans()
    run.total = sum(end - start for start, end in spans.values())

    def advance(offsets: int) -> None:
        run.passed += offsets

    return replay.send(spans, advance)
