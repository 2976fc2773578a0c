"""Waits that a shutdown may give up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

logger = logging.getLogger(__name__)


async def within(seconds: float, what: str, work: Awaitable[object]) -> None:
    """Wait for work that a shutdown may leave unfinished."""
    task = asyncio.ensure_future(work)
    done, _ = await asyncio.wait((task,), timeout=seconds)
    if done:
        task.result()
    else:
        logger.warning("the shutdown does not wait any longer for %s", what)
        task.cancel()
