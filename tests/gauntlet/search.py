"""Looks for a planted mistake: in simulated clusters, seed after seed, and with the unit and property tests.

`results.json` keeps which seed has found a mistake. That one is tried first: one seed instead of many, unless the code
has changed so much that its runs are others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from tests.gauntlet.planting import Mistake, planted
from tidelog.testing.simulation.run import run_seed

SEEDS_MAX: Final = 200

AREAS: Final[dict[str, tuple[str, ...]]] = {
    "replication": ("tests/unit/replication", "tests/property/replication", "tests/unit/storage/log"),
    "controller": ("tests/unit/controller", "tests/property/controller", "tests/unit/replication"),
    "coordination": ("tests/unit/coordination", "tests/unit/groups", "tests/unit/transactions"),
    "groups": ("tests/unit/groups", "tests/property/groups"),
    "producers": ("tests/unit/storage", "tests/property/storage", "tests/property/transactions"),
    "transactions": ("tests/unit/transactions", "tests/property/transactions"),
    "delayed": ("tests/unit/replication", "tests/property/replication", "tests/unit/storage"),
    "shares": ("tests/unit/sharing", "tests/property/sharing"),
    "storage": (
        "tests/unit/storage",
        "tests/property/storage",
        "tests/property/storage_files",
        "tests/property/storage_cleaner",
    ),
    "metadata": ("tests/unit/metadata", "tests/property/metadata", "tests/unit/controller"),
    "client": ("tests/unit/client", "tests/property/client", "tests/property/client_consumer"),
}
"""Where the tests of an area are."""


RESULTS: Final = Path(__file__).with_name("results.json")


class Found(NamedTuple):
    """What has found a mistake, if anything."""

    seed: int | None = None
    """The seed that found it; None if none did."""
    tried: int = 0
    """How many seeds were run until then."""
    anomaly: str = ""
    """What it says."""
    test: str | None = None
    """The first test that failed."""


def kept_results() -> dict[str, Found]:
    """What earlier searches have found, by the names of the mistakes."""
    if not RESULTS.exists():
        return {}
    return {name: Found(**found) for name, found in json.loads(RESULTS.read_text()).items()}


def search_seeds(entry: Mistake, seeds_max: int = SEEDS_MAX, brokers: int = 3, *, first: int | None = None) -> Found:
    """The seed that fails, of so many at most, beginning with `first`."""
    with planted(entry):
        for tried, seed in enumerate(_seeds(first, seeds_max), 1):
            report = run_seed(seed, brokers, has_delayed=entry.needs_delayed, has_shares=entry.needs_shares)
            if report.failed:
                return Found(seed, tried, report.anomalies[0])
    return Found(tried=seeds_max)


def _seeds(first: int | None, seeds_max: int) -> Iterator[int]:
    if first is None or first >= seeds_max:
        return iter(range(seeds_max))
    return chain([first], (seed for seed in range(seeds_max) if seed != first))


def search_tests(entry: Mistake) -> str | None:
    """The first unit or property test of the area that fails; None if all of them pass."""
    folders = [folder for folder in AREAS[entry.area] if os.path.isdir(folder)]
    command = [
        *(sys.executable, "-m", "pytest", "-p", "tests.gauntlet.plugin", "--mistake", entry.name),
        *("--hypothesis-profile", "gauntlet", "-p", "no:cacheprovider", "-m", "not long", "-n", "0"),
        *("-q", "-x", "--tb=no", *folders),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode != 1 or not lines:
        raise RuntimeError(f"pytest ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return lines[0].split(" ")[1]
