"""Spark Connect: what docs/spark-cluster.md says works does, exactly once, and the rest is refused with the reason."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.cli_support import SOURCE
from tests.integration.spark.pipeline_support import committed, ids, make_topics, send_orders
from tests.integration.spark.sink_checks import REPOSITORY
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

SENT = range(60)
KEYS = 5


def test_connect_reads_writes_and_runs_what_needs_no_driver_of_its_own(broker: Broker, tmp_path: Path) -> None:
    servers = broker.bootstrap_servers
    make_topics(servers, orders=2, batch=2, stream=2, counts=2, clean=2)
    send_orders(servers, "orders", SENT, keys=KEYS)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.integration.spark.connect_queries", servers, str(tmp_path)],
        # With this variable the server of Spark Connect takes a free port instead of its usual one.
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{REPOSITORY}", "SPARK_TESTING": "1"},
        cwd=tmp_path, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])

    for name in ("batch", "stream"):
        assert Counter(ids(committed(servers, name))) == Counter(SENT), name
    assert "set transactionalId to a name of its own for each checkpoint" in found["unnamed"]
    assert found["named"] is None
    assert found["repeated"] is None
    # Two batches of 30 orders, each with every key; the second is repeated, and not written again.
    per_batch = len(SENT) // KEYS // 2
    counts = [int(record.value or 0) for record in committed(servers, "counts")]
    assert Counter(counts) == {per_batch: KEYS, 2 * per_batch: KEYS}
    assert Counter(ids(committed(servers, "clean"))) == Counter(each for each in SENT if each % 10 != 3)
    assert Counter(ids(committed(servers, "dead"))) == Counter(each for each in SENT if each % 10 == 3)
    assert "cannot run in Spark Connect: function <lambda> is written batch by batch" in found["refused"]
