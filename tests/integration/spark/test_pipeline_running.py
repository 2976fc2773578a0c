"""`tidelog pipeline run`: workers and the JVM killed, watched from outside, and upgraded in place."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

import psutil
import pytest

from tests.integration.cli_support import SOURCE, run
from tests.integration.lineage_server import LineageServer, lineage_server
from tests.integration.spark.pipeline_support import committed, ids, make_topics, send_orders, wait_for
from tidelog.client import Admin, NewTopic
from tidelog.cluster.zookeeper import free_port
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

WAIT_S = 240.0

CLEAN = """
from tidelog.spark.pipeline import Pipeline, pack_json, row_step, topic

@row_step("id long, version int", columns=["value"])
def read(row):
    import json
    return {{"id": json.loads(row["value"])["id"], "version": {version}}}

pipeline = Pipeline(
    "clean", source=topic("run", maxOffsetsPerTrigger=20), steps=[read, pack_json("id", "version")],
    sink=topic("run.clean"), checkpoint={checkpoint!r}, trigger="0s",
)
"""
COPY = """
from tidelog.spark.pipeline import Pipeline, topic
pipeline = Pipeline("copy", source=topic("run"), sink=topic("run.copy"), checkpoint={checkpoint!r}, trigger="0s")
"""


class Pipelines:
    """A process of `tidelog pipeline run` and the events that it has printed."""

    def __init__(self, servers: str, directory: Path, *words: str) -> None:
        environment = {**os.environ, "PYTHONPATH": SOURCE, "TIDELOG_BOOTSTRAP_SERVERS": servers}
        self._out = directory / "events.json"
        with self._out.open("wb") as out, (directory / "errors.txt").open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidelog", "pipeline", "run", "--format", "json", *words],
                stdout=out, stderr=errors, env=environment, start_new_session=True,
            )  # fmt: skip

    def events(self, kind: str) -> list[dict[str, Any]]:
        lines = self._out.read_text().splitlines(keepends=True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in found if event["event"] == kind]

    def family(self, word: str) -> list[psutil.Process]:
        """Its descendants whose command has `word` in it."""
        found = []
        for each in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if any(word in part for part in each.cmdline()):
                    found.append(each)
            except psutil.Error:
                continue
        return found

    def kill(self, word: str) -> None:
        """Kill them as the kernel does when memory is short."""
        for each in self.family(word):
            try:
                each.send_signal(signal.SIGKILL)
            except psutil.Error:
                continue

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.mark.long
def test_deaths_do_not_end_pipelines_and_new_code_goes_on_where_the_old_stopped(broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, run=2, run_clean=2, run_copy=1)
    send_orders(servers, "run", range(100), keys=7)
    clean, copy = tmp_path / "clean.py", tmp_path / "copy.py"
    places = {"clean": str(tmp_path / "c1"), "copy": str(tmp_path / "c2")}
    clean.write_text(CLEAN.format(version=1, checkpoint=places["clean"]))
    copy.write_text(COPY.format(checkpoint=places["copy"]))
    metrics = f"127.0.0.1:{free_port()}"
    words = [str(clean), str(copy), "--master", "local[2]", "--metrics-listener", metrics]
    with lineage_server() as lineage, Pipelines(servers, tmp_path, *words, "--openlineage-url", lineage.url) as running:

        def has(count: int) -> bool:
            assert running.process.poll() is None, (tmp_path / "errors.txt").read_text()
            return min(len(committed(servers, name)) for name in ("run.clean", "run.copy")) >= count

        wait_for(lambda: has(100), WAIT_S, "the first batches")
        _watch(servers, running, metrics)
        for number, word in enumerate(("spark.daemon", "java"), 1):
            before = len(running.events("restarting"))
            running.kill(word)
            send_orders(servers, "run", range(80 + 20 * number, 100 + 20 * number), keys=7)
            wait_for(lambda: has(100 + 20 * number), WAIT_S, f"rows after the death of {word}")  # noqa: B023
        assert len(running.events("restarting")) > before, "the JVM was restarted, and the pipelines with it"
        assert running.end() == 0
        assert running.events("stopped")
        _judge_lineage(lineage, servers)
    stopped = run("pipeline", "status", "--format", "json", server=servers).document
    assert {each["pipeline"]: each["state"] for each in stopped} == {"clean": "stopped", "copy": "stopped"}

    clean.write_text(CLEAN.format(version=2, checkpoint=places["clean"]))
    send_orders(servers, "run", range(140, 150), keys=7)
    again = run(
        "pipeline", "run", str(clean), "--once", "--no-ui", "--master", "local[2]", server=servers, timeout_s=WAIT_S
    )
    assert again.code == 0, again
    rows = [json.loads(record.value or b"") for record in committed(servers, "run.clean")]
    assert Counter((row["id"], row["version"]) for row in rows) == Counter(
        (number, 1 if number < 140 else 2) for number in range(150)
    ), "every order once, by the code of its time"
    assert Counter(ids(committed(servers, "run.copy"))) == Counter(range(140))


def _watch(servers: str, running: Pipelines, metrics: str) -> None:
    """Both are seen from outside, and Spark's own pages are served."""

    def measured() -> dict[str, float]:
        with urlopen(f"http://{metrics}/metrics") as page:
            lines = [line for line in page.read().decode().splitlines() if not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    rows = 'tidelog_pipeline_input_rows_total{pipeline="clean",query="clean"}'
    wait_for(lambda: measured().get(rows) == 100, 30, "the metrics of the last batch")
    assert measured()['tidelog_pipeline_state{pipeline="clean",state="running"}'] == 1
    assert measured()['tidelog_pipeline_lag_records{pipeline="clean",query="clean"}'] == 0
    names = {event["pipeline"] for event in running.events("started")}
    assert names == {"clean", "copy"}
    shown = run("pipeline", "status", "clean", "copy", "--format", "json", server=servers)
    assert {each["state"] for each in shown.document} == {"running"}
    with urlopen(running.events("started")[0]["ui"] + "/StreamingQuery/") as page:
        assert b"clean" in page.read()


def _judge_lineage(lineage: LineageServer, servers: str) -> None:
    seen = lineage.types("copy")
    assert seen[:2] == ["START", "RUNNING"]
    assert "FAIL" in seen
    assert seen[-1] == "COMPLETE"
    assert lineage.events[0]["inputs"] == [{"namespace": f"kafka://{servers}", "name": "run"}]


SLOW = """
import time
from tidelog.spark.pipeline import Pipeline, pack_json, row_step, topic

@row_step("id long", columns=["value"])
def read(row):
    import json
    time.sleep(0.05)
    return {{"id": json.loads(row["value"])["id"]}}

pipeline = Pipeline(
    "slow", source=topic("slow", maxOffsetsPerTrigger=20), steps=[read, pack_json("id")],
    sink=topic("slow.out"), checkpoint={checkpoint!r}, trigger="0s",
)
"""


@pytest.mark.long
@pytest.mark.parametrize("whom", ["its group", "all of its processes"])
def test_a_stop_for_all_processes_ends_with_exit_code_0(broker: Broker, tmp_path: Path, whom: str) -> None:
    """A supervisor asks a process group, and systemd every process of a service, Spark's JVM and workers among them."""
    servers = broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, 1) for name in ("slow", "slow.out")])
    send_orders(servers, "slow", range(2_000), keys=7)
    file = tmp_path / "slow.py"
    file.write_text(SLOW.format(checkpoint=str(tmp_path / "checkpoint")))
    with Pipelines(servers, tmp_path, str(file), "--master", "local[2]", "--no-ui") as running:
        wait_for(lambda: len(committed(servers, "slow.out")) >= 20, WAIT_S, "the first batch")
        process = psutil.Process(running.process.pid)
        others = process.children(recursive=True)
        if whom == "its group":
            os.killpg(running.process.pid, signal.SIGTERM)
        else:
            for each in [*others, process]:
                each.send_signal(signal.SIGTERM)
        assert running.process.wait(120) == 0, (tmp_path / "errors.txt").read_text()
        assert running.events("stopped")
        assert not running.events("gave_up")
        _, alive = psutil.wait_procs(others, 30)
        assert not alive
    out = ids(committed(servers, "slow.out"))
    assert out == list(range(len(out))), "whole batches, once"
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(["slow", "slow.out"])
