"""Drivers of lakehouse pipelines, killed with all their processes around the commit of a batch.

    python -m tests.integration.spark.lake_kills --kills 40 [--s3]

kills the driver again and again, at random batches of either table, before or after its commit, while a compaction runs
after every batch, and then compares both tables with what was sent.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.integration.spark.object_store import BUCKET, object_store
from tests.integration.spark.pipeline_support import make_topics, send_orders
from tidelog.spark.pipeline import delta, iceberg
from tidelog.spark.pipeline.lake.tables import open_table
from tidelog.spark.session import prepare_environment
from tidelog.testing import Broker

DRIVER = """
import json, os, signal, sys
from tidelog.spark.pipeline import Pipeline, delta, iceberg, parse_json, topic
from tidelog.spark.pipeline.lake.delta import DeltaLake
from tidelog.spark.pipeline.lake.iceberg import IcebergTable

world = json.loads(os.environ["LAKE_WORLD"])


def die_around_commit(table, point):
    commit = table._add

    def dying(self, *arguments):
        if point == "before":
            os.killpg(0, signal.SIGKILL)
        done = commit(self, *arguments)
        if point == "after":
            os.killpg(0, signal.SIGKILL)
        return done

    table._add = dying


if world["point"]:
    die_around_commit({"delta": DeltaLake, "iceberg": IcebergTable}[world["kind"]], world["point"])
pipeline = Pipeline(
    "kills",
    source=topic("kills", maxOffsetsPerTrigger=world["batch"]),
    steps=[parse_json("id long")],
    sink=[delta(**world["delta"]), iceberg(**world["iceberg"])],
    checkpoint=world["checkpoint"],
    trigger="0s",
    settings={"spark.log.level": "ERROR", "spark.ui.enabled": "false", "spark.driver.memory": "1g"},
)
if __name__ == "__main__":
    pipeline.run(once=True)
"""


class Kills:
    """A topic, two tables and a driver that is started and killed. `storage` is None for local tables."""

    def __init__(self, servers: str, directory: Path, storage: dict[str, str] | None, batch: int = 40) -> None:
        self._servers = servers
        self._directory = directory
        shared: dict[str, Any] = {"columns": ["id", "partition", "offset"], "compact_every": "1ms"}
        if storage is None:
            self._delta = {"path": str(directory / "delta"), **shared}
            self._iceberg = {"table": "shop.orders", "warehouse": str(directory / "lake"), **shared}
        else:
            catalog = {"type": "sql", "uri": f"sqlite:///{directory}/catalog.db"}
            self._delta = {"path": f"s3://{BUCKET}/delta", "storage": storage, **shared}
            self._iceberg = {
                "table": "shop.orders",
                "warehouse": f"s3://{BUCKET}/lake",
                "properties": catalog,
                "storage": storage,
                **shared,
            }
        self._batch = batch
        self._sent = 0
        (directory / "kills.py").write_text(DRIVER)
        make_topics(servers, kills=2)

    def run(self, kind: str, point: str) -> None:
        """Send records and start a driver that is killed at `point` of the first batch that it commits to `kind`."""
        self._send()
        # A busy machine may fail to start a driver's Python workers in time: one more crash, before the kill.
        assert any(self._start(kind, point) == -signal.SIGKILL for _ in range(3)), self._log()

    def finish(self) -> None:
        """The last run, to the end."""
        self._send()
        assert any(self._start(None, None) == 0 for _ in range(3)), self._log()

    def check(self) -> None:
        """Both tables have every record once."""
        expected = Counter(range(self._sent))
        for table in (delta(**self._delta), iceberg(**self._iceberg)):
            found = Counter(open_table(table).read()["id"].to_pylist())
            assert found == expected, f"{table}: lost {expected - found}, twice {found - expected}"

    def _send(self) -> None:
        count = 2 * self._batch
        send_orders(self._servers, "kills", range(self._sent, self._sent + count), keys=7)
        self._sent += count

    def _start(self, kind: str | None, point: str | None) -> int:
        prepare_environment()
        world = {
            "kind": kind,
            "point": point,
            "batch": self._batch,
            "delta": self._delta,
            "iceberg": self._iceberg,
            "checkpoint": str(self._directory / "checkpoint"),
        }
        environment = {**os.environ, "TIDELOG_BOOTSTRAP_SERVERS": self._servers, "LAKE_WORLD": json.dumps(world)}
        with (self._directory / "driver.log").open("wb") as log:
            return subprocess.run(
                [sys.executable, "kills.py"],
                cwd=self._directory,
                env=environment,
                stdout=log,
                stderr=log,
                timeout=400,
                start_new_session=True,
                check=False,
            ).returncode

    def _log(self) -> str:
        return (self._directory / "driver.log").read_text()[-3000:]


def main() -> None:
    """Kill as often as asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    print(f"seed {asked.seed}")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        storage = stack.enter_context(object_store()) if asked.s3 else None
        broker = stack.enter_context(Broker(process=True))
        kills = Kills(broker.bootstrap_servers, directory, storage)
        for number in range(asked.kills):
            where = chance.choice(("delta", "iceberg")), chance.choice(("before", "after"))
            kills.run(*where)
            print(f"kill {number + 1}: {' '.join(where)} the commit", flush=True)
        kills.finish()
        kills.check()
    print("every record is in both tables once")


if __name__ == "__main__":
    main()
