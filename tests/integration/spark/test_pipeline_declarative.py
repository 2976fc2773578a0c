"""A pipeline's source, steps and sink inside Spark Declarative Pipelines, as `spark-pipelines run` runs them."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.integration.spark.pipeline_support import assert_each_once, committed, ids, make_topics, send_orders
from tidelog.spark.session import prepare_environment
from tidelog.testing import Broker

pytestmark = pytest.mark.spark

SPECIFICATION = """
name: orders
storage: file://{storage}
libraries: [{{glob: {{include: transformations/**}}}}]
"""
TRANSFORMATION = """
from tidelog.spark.pipeline import Pipeline, RetryLadder, declare, fail_when, pack_json, parse_json, topic

declare(
    Pipeline(
        "declared",
        source=topic("declared"),
        steps=[parse_json("id long"), fail_when("id % 10 = 3", "three"), pack_json("id")],
        sink=topic("declared.clean"),
        on_failure=RetryLadder(delays=["1h"]),
    ),
    bootstrap_servers={servers!r},
)
"""
SENT = range(40)


@pytest.mark.timeout(400)
@pytest.mark.long
def test_a_pipeline_runs_inside_spark_declarative_pipelines(broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, declared=2, declared_clean=2)
    send_orders(servers, "declared", SENT, keys=5)
    (tmp_path / "spark-pipeline.yml").write_text(SPECIFICATION.format(storage=tmp_path / "storage"))
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "orders.py").write_text(TRANSFORMATION.format(servers=servers))

    prepare_environment()
    program = str(Path(sysconfig.get_path("scripts")) / "spark-pipelines")
    done = subprocess.run(
        [program, "run", "--conf", "spark.ui.enabled=false", "--conf", "spark.sql.shuffle.partitions=2"],
        # With this variable the server of Spark Connect takes a free port instead of its usual one.
        cwd=tmp_path, env={**os.environ, "SPARK_TESTING": "1"}, capture_output=True, timeout=300,
    )  # fmt: skip
    # Not the exit code: PySpark's program may stumble over the accumulators of Python functions once all is done.
    assert b"Run is COMPLETED" in done.stdout + done.stderr, (done.stdout + done.stderr).decode()[-4000:]
    dying = {number for number in SENT if number % 10 == 3}
    assert_each_once(
        ids(committed(servers, "declared.clean")), ids(committed(servers, "declared.retry.1")), SENT, dying
    )
