"""A pipeline killed in the middle, driver and all, and taken up again: every row is there once."""

import os
import signal
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cli_support import run
from tests.integration.spark.pipeline_support import (
    assert_each_once,
    committed,
    ids,
    make_topics,
    send_orders,
    wait_for,
)
from tidelog.spark.session import prepare_environment
from tidelog.testing import Broker

pytestmark = pytest.mark.spark

FILE = """
import lucky_numbers
from lucky_package.inner import read
from tidelog.spark.pipeline import Pipeline, RetryLadder, row_step, pack_json, topic

@row_step("id long", columns=["value", "_record"])
def read_order(row):
    number = read(row)["id"]
    if number % 10 == 3 or (number % 10 == lucky_numbers.LUCKY and row["_record"]["attempts"] == 0):
        raise ValueError(f"order {{number}} failed")
    return {{"id": number}}

pipeline = Pipeline(
    "kill",
    source=topic("kill", maxOffsetsPerTrigger=30),
    steps=[read_order, pack_json("id")],
    sink=topic("kill.clean"),
    on_failure=RetryLadder(delays=["500ms", "500ms"]),
    checkpoint={checkpoint!r},
    trigger="0s",
)

if __name__ == "__main__":
    pipeline.run()
"""
SENT = range(120)
DYING = {number for number in SENT if number % 10 == 3}


@pytest.mark.timeout(600)
@pytest.mark.long
def test_a_killed_pipeline_loses_nothing_and_repeats_nothing(broker: Broker, tmp_path: Path) -> None:
    """The first run is a plain spark-submit, killed when some batches are out; `run --drain` does the rest.

    Its steps import what lies beside the file, which is not where the executors run.
    """
    servers = broker.bootstrap_servers
    make_topics(servers, kill=3, kill_clean=2)
    send_orders(servers, "kill", SENT, keys=11)
    file = tmp_path / "kill.py"
    file.write_text(FILE.format(checkpoint=str(tmp_path / "checkpoint")))
    (tmp_path / "lucky_numbers.py").write_text("LUCKY = 5\n")
    (tmp_path / "lucky_package").mkdir()
    (tmp_path / "lucky_package" / "__init__.py").write_text("")
    (tmp_path / "lucky_package" / "inner.py").write_text(
        "import json\ndef read(row): return json.loads(row['value'])\n"
    )

    _submit_and_kill(file, servers, lambda: len(committed(servers, "kill.clean")) >= 20)
    before = len(committed(servers, "kill.clean"))
    assert before < len(SENT) - len(DYING), "it was killed before it was done"

    ended = run(
        "pipeline", "run", str(file), "--drain", "--master", "local[2]", "--format", "json",
        server=servers, timeout_s=300,
    )  # fmt: skip
    events = ended.lines
    assert events[0]["event"] == "started"
    assert events[-1]["event"] == "done"
    assert sum(event["input_rows"] for event in events if event["event"] == "progress") > 0
    assert_each_once(ids(committed(servers, "kill.clean")), ids(committed(servers, "kill.dlq")), SENT, DYING)

    planned = run("pipeline", "plan", str(file), "--format", "json", server=servers).document
    assert planned["lag"] == 0

    sent_back = run(
        "pipeline", "replay", str(file), "--filter", "origin.partition=0", "--format", "json", server=servers
    )
    again = run("pipeline", "replay", str(file), "--format", "json", server=servers)
    assert sent_back.document["kept"] + sum(sent_back.document["sent"].values()) == len(DYING)
    assert sum(again.document["sent"].values()) == sent_back.document["kept"]
    replayed = committed(servers, "kill")[:]
    assert sorted(ids(replayed)) == sorted([*SENT, *DYING]), "each dead letter went back once"
    own = {name for record in replayed for name, _ in record.headers}
    assert own <= {"n", "tidelog.replayed"}, "as it was before it failed"


def _submit_and_kill(file: Path, servers: str, is_time: Callable[[], bool]) -> None:
    prepare_environment()
    environment = {**os.environ, "TIDELOG_BOOTSTRAP_SERVERS": servers}
    submit = str(Path(sysconfig.get_path("scripts")) / "spark-submit")
    command = [submit, "--master", "local[2]", "--conf", "spark.ui.enabled=false", str(file)]
    log = file.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, cwd=file.parent, start_new_session=True
        )
    try:
        wait_for(lambda: is_time() or process.poll() is not None, 180, "the first batches")
        assert process.poll() is None, log.read_text()[-3000:]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
