"""Simulated clusters of three brokers under random faults lose nothing, and planted mistakes are found."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.integration.cli_support import SOURCE
from tidelog.testing.simulation.planted import PLANTED
from tidelog.testing.simulation.run import run_seed

SEEDS_PER_TEST = 20


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE, "PYTHONHASHSEED": "0"}
    return subprocess.run(
        [sys.executable, "-m", "tidelog.testing.simulation", *words], capture_output=True, text=True, env=environment
    )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "first",
    [
        *range(0, 40, SEEDS_PER_TEST),
        *(pytest.param(first, marks=pytest.mark.long) for first in range(40, 200, SEEDS_PER_TEST)),
    ],
)
def test_seeds_hold_every_promise(first: int) -> None:
    words = ("--first", str(first), "--seeds", str(SEEDS_PER_TEST), "--processes", "1", "--brokers", "3")
    finished = simulate(*words)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_one_broker_alone_holds_its_promises() -> None:
    finished = simulate("--seeds", "5", "--processes", "1", "--brokers", "1", "--format", "json")
    assert finished.returncode == 0, finished.stderr
    totals = json.loads(finished.stdout)
    assert totals["seeds"] == 5
    assert totals["counts"]["acknowledged sends"] > 0


FOUND = (
    "truncation by high watermark instead of epoch",
    "high watermark moved before the followers have it",
    "a coordinator that answers before the log has it",
    "a torn tail accepted",
)
"""Of the other planted mistakes the faults of these schedules do not show the harm often enough."""


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FOUND)
def test_a_planted_mistake_is_found_within_200_seeds(name: str) -> None:
    for seed in range(200):
        with PLANTED[name]():
            report = run_seed(seed, brokers=3)
        if report.failed:
            return
    pytest.fail(f"200 seeds have not found: {name}")
