"""Runs of clients, each in a process of its own, in turn with the others. Client benchmarks of both directions call it.

A benchmark's module runs one job when it is called with `--child`, and prints its rates; without, it goes through its
clients round after round, and who goes first moves on with each round.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any, TypedDict

CHILD_SECONDS_MAX = 300


class Rates(TypedDict):
    """Records per second of wall time, and of the client's processor time."""

    wall: float
    cpu: float


def finish(work: Awaitable[None] | None) -> None:
    """Run what a client has left to be awaited, if it is of that kind, on the quickest loop there is."""
    if work is None:
        return
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)  # type: ignore[arg-type]
    else:
        uvloop.run(work)  # type: ignore[arg-type]


def run_child(module: str, job: Any) -> Rates:
    """Let `module` do `job`, a dataclass, in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", module, "--child", json.dumps(asdict(job))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=CHILD_SECONDS_MAX, env=os.environ, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{job.client} failed:\n{done.stderr[-2000:]}")
    rates: Rates = json.loads(done.stdout.splitlines()[-1])
    return rates


def in_turn(names: Sequence[str], rounds: int, measure: Callable[[str], Rates]) -> dict[str, list[Rates]]:
    """`measure` for each name in each round."""
    found: dict[str, list[Rates]] = {name: [] for name in names}
    for number in range(rounds):
        for step in range(len(names)):
            name = names[(number + step) % len(names)]
            found[name].append(measure(name))
            print(f"round {number + 1}  {name:32} {found[name][-1]['wall']:10,.0f} records/s", file=sys.stderr)
    return found


def print_rates(found: dict[str, list[Rates]]) -> None:
    """A line for each client."""
    print("| client | records/s (median) | lowest – highest | per second of its processor time |")
    print("|---|---:|---:|---:|")
    for name, runs in found.items():
        wall, cpu = [run["wall"] for run in runs], [run["cpu"] for run in runs]
        middle, spent = statistics.median(wall), statistics.median(cpu)
        print(f"| {name} | {middle:,.0f} | {min(wall):,.0f} – {max(wall):,.0f} | {spent:,.0f} |")
