"""Looks at a cluster, waits, looks again, and applies every check."""

import asyncio
import time

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.health.checks import CHECKS, COMPARISONS
from tidelog.health.findings import Finding
from tidelog.health.snapshot import take


async def examine(admin: AsyncAdmin, wait_s: float = 0.0) -> list[Finding]:
    """What is wrong, the most urgent first. With `wait_s` also what should move and does not.

    Raises ClientError if the cluster cannot be reached.
    """
    seen = await take(admin, _now_ms())
    findings = [finding for check in CHECKS for finding in check(seen)]
    if wait_s > 0:
        await asyncio.sleep(wait_s)
        later = await take(admin, _now_ms())
        findings += [finding for compare in COMPARISONS for finding in compare(seen, later)]
    return sorted(findings, key=lambda each: -each.level)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
