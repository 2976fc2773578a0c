"""A standalone cluster: a packaged pipeline submitted to it whose executors are killed, and a short kill matrix."""

import json
import os
import signal
import subprocess
import sysconfig
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.cli_support import run
from tests.integration.spark.kill_matrix import Matrix
from tests.integration.spark.pipeline_support import make_topics, send_orders, wait_for
from tests.integration.spark.sink_checks import read_messages
from tests.integration.spark.standalone import SPARK_HOME, StandaloneCluster, kill_family
from tests.unit.present import present
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

WAIT_S = 240.0
PIPELINE = """
from rates import rate
from tidelog.spark.pipeline import Pipeline, pack_json, row_step, topic

@row_step("id long, rate long, home string", columns=["value"])
def priced(row):
    import json, tidelog
    number = json.loads(row["value"])["id"]
    return {"id": number, "rate": rate(number), "home": tidelog.__file__}

pipeline = Pipeline(
    "priced", source=topic("orders"), steps=[priced, pack_json("id", "rate", "home")], sink=topic("orders.priced"),
    settings={"spark.executor.memory": "900m", "spark.sql.shuffle.partitions": "2"}, trigger="0s",
)

if __name__ == "__main__":
    pipeline.run()
"""


@pytest.mark.long
def test_a_packaged_pipeline_runs_on_executors_that_have_nothing_and_survives_their_death(
    broker: Broker, tmp_path: Path
) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, orders=2, orders_priced=2)
    send_orders(servers, "orders", range(40), keys=7)
    file = tmp_path / "orders.py"
    file.write_text(PIPELINE)
    (tmp_path / "rates.py").write_text("def rate(number): return number * 3\n")
    archive = tmp_path / "orders.tar.gz"
    packed = run("pipeline", "package", str(file), "--output", str(archive), "--format", "json", timeout_s=WAIT_S)
    assert "rates.py" in packed.document["modules"]
    with tarfile.open(archive) as unpacked:
        unpacked.extractall(tmp_path / "environment", filter="tar")

    with StandaloneCluster(tmp_path / "cluster") as cluster:
        submitted = _submit(file, archive, cluster.url, servers)
        try:
            wait_for(lambda: _has(servers, 40, submitted, tmp_path), WAIT_S, "the first batches")
            for executor in cluster.executors():
                executor.send_signal(signal.SIGKILL)
            send_orders(servers, "orders", range(40, 60), keys=7)
            wait_for(lambda: _has(servers, 60, submitted, tmp_path), WAIT_S, "rows after the executors' death")
        finally:
            kill_family(submitted.pid)
            submitted.wait()
    rows = [json.loads(present(message.value())) for message in read_messages(servers, "orders.priced")]
    assert Counter((row["id"], row["rate"]) for row in rows) == Counter((number, 3 * number) for number in range(60))
    assert all("/environment/site-packages/tidelog/" in row["home"] for row in rows), "the archive's, not this one's"


def _submit(file: Path, archive: Path, master: str, servers: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": "./environment/bin/python",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TIDELOG_BOOTSTRAP_SERVERS": servers,
        "TIDELOG_CHECKPOINTS": str(file.parent / "checkpoints"),
    }
    for name in ("PYTHONPATH", "PYSPARK_DRIVER_PYTHON"):
        environment.pop(name, None)
    words = [
        "--master", master, "--archives", f"{archive}#environment", "--conf", "spark.ui.enabled=false",
    ]  # fmt: skip
    with (file.parent / "submit.log").open("wb") as log:
        return subprocess.Popen(
            [str(Path(sysconfig.get_path("scripts")) / "spark-submit"), *words, str(file)],
            stdout=log, stderr=log, env=environment, cwd=file.parent, start_new_session=True,
        )  # fmt: skip


def _has(servers: str, count: int, submitted: subprocess.Popen[bytes], directory: Path) -> bool:
    assert submitted.poll() is None, (directory / "submit.log").read_text()[-3000:]
    return len(read_messages(servers, "orders.priced")) >= count


@pytest.mark.long
def test_kills_of_each_kind_on_a_cluster_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """The first kills of `python -m tests.integration.spark.kill_matrix --seed 3`, one of a kind."""
    matrix = Matrix(tmp_path, seed=3, say=lambda text: None)
    verdict = matrix.run(kills=3, victims=("python worker", "executor", "broker"))
    assert verdict["wrong"] == 0
    assert matrix.killed.total() == 3
