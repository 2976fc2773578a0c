"""The connector on the other versions of Spark that it says it works with, each installed from PyPI into a cache."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli_support import SOURCE
from tests.integration.spark.pipeline_support import make_topics, send_orders
from tests.integration.spark.sink_checks import REPOSITORY, read_messages
from tidelog.spark.internals import TRIED
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

OTHERS = {"4.2": "4.2.1"}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog" / "tests"


def installed(version: str) -> Path:
    """A directory with this PySpark and nothing else."""
    place = CACHE / f"pyspark-{version}"
    if not place.is_dir():
        draft = place.with_name(f"{place.name}.{os.getpid()}")
        words = ["install", "--quiet", "--no-deps", "--target", str(draft), f"pyspark=={version}"]
        ran = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=600)
        if ran.returncode:
            pytest.skip(f"PySpark {version} cannot be installed: {ran.stderr.strip().splitlines()[-1:]}")
        draft.replace(place)
    return place


def test_every_version_that_is_accepted_is_tried() -> None:
    import pyspark

    assert {*OTHERS, ".".join(pyspark.__version__.split(".")[:2])} == set(TRIED)


@pytest.mark.long
@pytest.mark.parametrize("version", OTHERS.values())
def test_source_sink_and_pipelines_work_on(version: str, broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, orders=2, copied=2, clean=2, counts=1)
    send_orders(servers, "orders", range(50), keys=5)
    environment = {**os.environ, "PYTHONPATH": f"{installed(version)}:{SOURCE}:{REPOSITORY}"}
    environment.pop("SPARK_HOME", None)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.integration.spark.version_queries", servers, str(tmp_path)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == {"version": version, "batches": 3, "hashes_in_jvm": True}
    counts = {name: len(read_messages(servers, name)) for name in ("copied", "clean", "dead", "counts")}
    assert counts == {"copied": 50, "clean": 45, "dead": 5, "counts": 50}
