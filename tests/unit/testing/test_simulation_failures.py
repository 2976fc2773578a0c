"""Whatever ends a simulated seed, the seed is named with the command that replays it, and the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tidelog.testing.simulation import Simulation, SimulationFailed, run
from tidelog.testing.simulation.__main__ import main, replay_command
from tidelog.testing.simulation.faults import draw_schedule
from tidelog.testing.simulation.replacing import replaced
from tidelog.testing.simulation.run import run_seed
from tidelog.testing.simulation.swarm import Swarm


@contextmanager
def a_defect_in_seed(broken: int) -> Iterator[None]:
    def live(cluster: Simulation, report: run.Report, *_: Any) -> None:
        if report.seed == broken:
            cluster.world.tell("test", "the last thing that happened")
            raise KeyError("a defect")

    with replaced(run, "_live", live):
        yield


def test_an_exception_is_what_a_seed_has_found() -> None:
    with a_defect_in_seed(3):
        report = run_seed(3, brokers=1)
    assert report.failed
    assert report.anomalies == ["exception: KeyError('a defect')"]
    assert any("the last thing that happened" in line for line in report.story)
    assert any("raise KeyError" in line for line in report.story)


def test_a_start_that_fails_is_what_a_seed_has_found_and_leaves_nothing_changed() -> None:
    def fail(_self: Simulation, *_: Any) -> None:
        raise SimulationFailed("seed 5: not within 60 s: every broker serves\nand a story")

    with replaced(Simulation, "wait_until", fail):
        report = run_seed(5, brokers=1)
    assert report.anomalies == ["seed 5: not within 60 s: every broker serves"]
    assert run_seed(5, brokers=1).anomalies == []


def test_the_seeds_after_an_exception_run_and_the_exit_code_says_that_one_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    with a_defect_in_seed(1):
        code = main(["--seeds", "3", "--brokers", "1", "--processes", "1", "--no-shorten"])
    output = capsys.readouterr()
    assert code == 1
    assert "seed 1 fails: exception: KeyError('a defect')" in output.err
    command = "python -m tidelog.testing.simulation --seed 1 --brokers 1"
    assert f"replay it: {command}\n" in output.err
    assert f"replay it: {command}\n" in output.out
    assert "seed 0 fails" not in output.err
    assert "seed 2 fails" not in output.err


def test_a_failing_seed_shrinks_to_the_faults_and_clients_that_it_takes() -> None:
    """It fails where brokers are cut off and a reader reads, here; all else is left out, and the command says so."""
    needed, drawn = 2, draw_schedule(7, run.FAULT_SECONDS, run.FAULTS_PER_SEED)

    def live(_cluster: Simulation, report: run.Report, swarm: Swarm, *_: Any) -> None:
        if drawn[needed] in report.schedule and "reader" in swarm.clients:
            raise KeyError("a defect")

    def swarm_of(_seed: int, _brokers: int) -> Swarm:
        return Swarm(clients=frozenset({"reader", "classic group", "plain producer"}), skews_ms=(0,), is_haunted=True)

    with replaced(run, "_live", live), replaced(run, "draw_swarm", swarm_of):
        shortest = run.shorten(run_seed(7, brokers=1), brokers=1)
    assert shortest.failed
    assert shortest.schedule == [drawn[needed]]
    assert shortest.features == ["reader"]
    command = replay_command(shortest, 1)
    assert f"--seed 7 --brokers 1 --faults {needed} --without " in command
    assert "'classic group' 'late requests' 'plain producer'" in command
