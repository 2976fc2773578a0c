"""Simulated clusters of three brokers under random faults lose nothing, and planted mistakes are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.effort import usually
from tests.gauntlet.mistakes import FOUND_BY_FEW_SEEDS, MISTAKES
from tests.gauntlet.search import kept_results, search_seeds
from tests.integration.cli_support import SOURCE
from tidelog.testing.simulation.run import run_seed


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONHASHSEED": "0"}
    return subprocess.run(
        [sys.executable, "-m", "tidelog.testing.simulation", *words], capture_output=True, text=True, env=environment
    )


@pytest.mark.timeout(900)
def test_every_promise_holds_and_every_fault_happens() -> None:
    """The exit code also says whether a fault of the table, or a step of the protocol, never came about."""
    finished = simulate("--seeds", "150", "--processes", "2", "--no-shorten")
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_one_broker_alone_holds_its_promises() -> None:
    finished = simulate("--seeds", "5", "--processes", "1", "--brokers", "1", "--format", "json")
    assert finished.returncode == 0, finished.stderr
    totals = json.loads(finished.stdout)
    assert totals["seeds"] == 5
    assert totals["counts"]["acknowledged sends"] > 0


@pytest.mark.parametrize("seeds", usually([3], [3, 20]))
@pytest.mark.timeout(900)
def test_share_groups_hold_their_promises(seeds: int) -> None:
    """None of its records is locked twice at once, delivered after a confirmed accept, or lost."""
    finished = simulate("--seeds", str(seeds), "--processes", "2", "--shares", "--no-shorten", "--format", "json")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert json.loads(finished.stdout)["counts"]["share accepts confirmed"] > 0


def test_seeds_go_on_from_any_of_them() -> None:
    """A run of many seeds that was interrupted is continued with `--first-seed`."""
    finished = simulate("--first-seed", "4711", "--seeds", "2", "--processes", "1", "--format", "json")
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["seeds"] == 2


QUICKLY_FOUND = (
    "a follower truncates to its high watermark instead of by leader epoch",
    "a leader serves fetches of any leader epoch",
    "the high watermark moves before the followers have the records",
)
"""Most schedules bring these to light; some others take tens of seeds."""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "name", usually(QUICKLY_FOUND, [entry.name for entry in MISTAKES if entry.name in FOUND_BY_FEW_SEEDS])
)
def test_a_planted_mistake_is_found_within_200_seeds(name: str) -> None:
    (entry,) = (each for each in MISTAKES if each.name == name)
    kept = kept_results().get(name)
    found = search_seeds(entry, first=None if kept is None else kept.seed)
    assert found.seed is not None, f"200 seeds have not found: {name}"


def test_what_is_found_is_the_planted_mistake() -> None:
    """Without the mistake the same seeds hold every promise."""
    for seed in range(3):
        assert run_seed(seed, brokers=3).anomalies == []
