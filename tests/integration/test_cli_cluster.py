"""`tidelog cluster`: brokers on this machine, started, killed, restarted, added and stopped by commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.compat.metrics.pages import Page
from tests.integration.cli_support import SOURCE, Ran, run, run_here
from tests.integration.writers import wait_until
from tests.integration.zookeeper_support import needs_zookeeper
from tidelog.cluster import supervisor
from tidelog.cluster.layout import ClusterDirectory
from tidelog.cluster.supervisor import Supervisor, new_description


def status(directory: Path) -> Any:
    return run_here("cluster", "status", "--directory", str(directory), "--format", "json").document


def running(directory: Path) -> list[int]:
    return [broker["broker"] for broker in status(directory)["brokers"] if broker["state"] != "stopped"]


def cluster(directory: Path, *words: str) -> Ran:
    finished = run("cluster", *words, "--directory", str(directory))
    assert finished.code == 0, finished.err
    return finished


def two_brokers(place: Path) -> Iterator[Path]:
    cluster(place, "up", "--brokers", "2", "--port", "0", "--detach", "--set", "zookeeper.session.timeout.ms=2000")
    yield place
    run("cluster", "down", "--directory", str(place))


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Of a cluster of two brokers that the test may change."""
    yield from two_brokers(tmp_path / "c")


@pytest.fixture(scope="module")
def shared_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a cluster whose two brokers run before and after each test."""
    yield from two_brokers(tmp_path_factory.mktemp("shared") / "c")


def test_every_broker_serves_metrics_and_status_says_where(shared_directory: Path) -> None:
    active = "kafka_controller_kafkacontroller_activecontrollercount"
    urls = [broker["metrics"] for broker in status(shared_directory)["brokers"]]
    assert sum(Page.read(url).value(active) for url in urls) == 1
    assert f"metrics: {' '.join(urls)}" in cluster(shared_directory, "status").out


def test_brokers_are_killed_restarted_added_and_stopped_by_commands(directory: Path) -> None:
    assert running(directory) == [1, 2]
    cluster(directory, "kill", "1")
    assert running(directory) == [2]
    cluster(directory, "restart", "1")
    cluster(directory, "stop", "2")
    assert running(directory) == [1]
    assert "broker 3 serves" in cluster(directory, "add").out
    assert running(directory) == [1, 3]
    cluster(directory, "down")
    assert running(directory) == []


@pytest.mark.parametrize("is_taken", [False, True])
def test_the_port_of_an_added_broker_follows_the_others_unless_it_is_taken(
    is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is bound here: another test may be given the port at this moment."""
    description = new_description(2)
    following = max(broker.port for broker in description.brokers) + 1
    monkeypatch.setattr(supervisor, "is_free", lambda _port, _host: not is_taken)
    monkeypatch.setattr(supervisor, "free_ports", lambda _count, _host: [following + 7])
    chosen = Supervisor(ClusterDirectory(tmp_path / "c"), description).next_port()
    assert chosen == (following + 7 if is_taken else following)


def test_a_cluster_goes_on_with_its_data_and_its_ports(shared_directory: Path) -> None:
    before = json.loads((shared_directory / "cluster.json").read_text())
    cluster(shared_directory, "down")
    cluster(shared_directory, "up", "--detach")
    after = json.loads((shared_directory / "cluster.json").read_text())
    assert [broker["port"] for broker in after["brokers"]] == [broker["port"] for broker in before["brokers"]]
    assert running(shared_directory) == [1, 2]


def test_what_cannot_be_done_is_said_in_one_sentence(shared_directory: Path, tmp_path: Path) -> None:
    for words, said in (
        (("up", "--directory", str(shared_directory)), "is already running"),
        (("up", "--port", "1", "--directory", str(shared_directory)), "omit --port 1"),
        (("kill", "9", "--directory", str(shared_directory)), "broker 9 does not exist; the cluster has 1, 2"),
        (("kill", "zookeeper", "--directory", str(shared_directory)), "no ZooKeeper of its own"),
        (("status", "--directory", str(tmp_path / "nothing")), "no cluster in"),
        (("restart", "1", "--directory", str(tmp_path / "nothing")), "no cluster in"),
    ):
        finished = run_here("cluster", *words)
        assert finished.code == 1
        assert said in finished.err
        assert "Traceback" not in finished.err


def test_brokers_that_do_not_start_are_named_with_their_exit_code(tmp_path: Path) -> None:
    refused = refused_up(tmp_path / "c", "--brokers", "5", "--port", "0", "--set", "nope=1")
    assert "did not start (exit code 2)" in refused.err
    assert "Unknown setting: nope" in refused.err
    assert "Unknown child process" not in refused.err


@pytest.mark.long
def test_what_a_cluster_did_not_start_with_is_not_remembered(tmp_path: Path) -> None:
    place = tmp_path / "c"
    refused_up(place, "--brokers", "2", "--port", "0", "--set", "nope=1")
    refused_up(place, "--brokers", "2", "--port", "65535")
    try:
        cluster(place, "up", "--brokers", "1", "--port", "0", "--detach", "--set", "log.retention.hours=3")
        cluster(place, "down")
        refused_up(place, "--set", "nope=1")
        cluster(place, "up", "--detach")
        assert json.loads((place / "cluster.json").read_text())["settings"] == {"log.retention.hours": "3"}
    finally:
        run("cluster", "down", "--directory", str(place))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 1), (signal.SIGINT, 130)])
def test_a_cluster_that_is_stopped_while_it_starts_leaves_no_broker_behind(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    place = tmp_path / "c"
    words = ("cluster", "up", "--brokers", "2", "--port", "0", "--directory", str(place))
    starting = subprocess.Popen(
        [sys.executable, "-m", "tidelog", *words], stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": SOURCE}
    )
    try:
        wait_until((place / "broker-2.log").exists, "both brokers start")
        starting.send_signal(number)
        _, said = starting.communicate(timeout=60)
        wait_until_gone(place)
    finally:
        starting.kill()
    assert starting.returncode == code
    assert b"Traceback" not in said


@pytest.mark.long
def test_a_cluster_whose_supervisor_was_killed_is_up_when_every_broker_serves(directory: Path) -> None:
    before = json.loads((directory / "cluster.json").read_text())
    cluster(directory, "kill", "1")
    kill_process(before["supervisor_pid"])
    try:
        refused = refused_up(directory)
        assert "broker 2 did not start" in refused.err
    finally:
        kill_process(before["brokers"][1]["pid"])
    cluster(directory, "up", "--detach")
    assert running(directory) == [1, 2]


def kill_process(pid: int) -> None:
    process = psutil.Process(pid)
    process.kill()
    gone, _ = psutil.wait_procs([process], timeout=30)
    assert gone == [process]


def refused_up(directory: Path, *words: str) -> Ran:
    finished = run("cluster", "up", "--detach", *words, "--directory", str(directory))
    assert finished.code == 1
    return finished


@needs_zookeeper
@pytest.mark.long
def test_a_cluster_runs_a_zookeeper_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "z"
    cluster(place, "up", "--brokers", "2", "--port", "0", "--zookeeper", "--detach")
    try:
        assert zookeeper(place)["state"] == "running"
        assert run("topic", "create", "kept", server=servers(place)).code == 0
        cluster(place, "kill", "zookeeper")
        assert zookeeper(place)["state"] == "stopped"
        cluster(place, "restart", "zookeeper")
        cluster(place, "down")
        assert zookeeper(place)["pid"] == 0
        refused = run("cluster", "up", "--detach", "--zookeeper", "127.0.0.1:1", "--directory", str(place))
        assert "keeps its metadata in" in refused.err
        cluster(place, "up", "--detach", "--zookeeper")
        assert "kept" in run("topic", "list", server=servers(place)).out
    finally:
        run("cluster", "down", "--directory", str(place))
    wait_until_gone(place)


def test_a_cluster_without_a_zookeeper_of_its_own_says_so(shared_directory: Path) -> None:
    assert status(shared_directory)["zookeeper"] is None


def zookeeper(directory: Path) -> dict[str, object]:
    found: dict[str, object] = status(directory)["zookeeper"]
    return found


def servers(directory: Path) -> str:
    return str(status(directory)["bootstrap_servers"])


def wait_until_gone(directory: Path) -> None:
    """Return when no process of the cluster is left; the supervisor ends a moment after it says so."""
    deadline = time.monotonic() + 30
    while processes := [
        words
        for each in psutil.process_iter(["cmdline"])
        if str(directory) in (words := " ".join(each.info["cmdline"] or ()))
    ]:
        assert time.monotonic() < deadline, processes
        time.sleep(0.05)
