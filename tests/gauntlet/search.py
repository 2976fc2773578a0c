"""Looks for a planted mistake: in simulated clusters, seed after seed, and with the unit and property tests."""

from __future__ import annotations

import os
import subprocess
import sys
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


class Found(NamedTuple):
    """What has found a mistake, if anything."""

    seeds: int | None
    """How many seeds it took; None if none of them found it."""
    anomaly: str
    test: str | None
    """The first test that failed."""


def search_seeds(entry: Mistake, seeds_max: int = SEEDS_MAX, brokers: int = 3) -> tuple[int | None, str]:
    """How many seeds it takes until one fails, and what it says; None if none of them does."""
    with planted(entry):
        for seed in range(seeds_max):
            report = run_seed(seed, brokers, has_delayed=entry.needs_delayed)
            if report.failed:
                return seed + 1, report.anomalies[0]
    return None, ""


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
