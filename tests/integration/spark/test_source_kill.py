"""A query killed in its first micro-batch, for real: the one whose start Spark does not remember."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Producer

from tests.integration.spark.source_support import SECONDS, Collected, make_topic, streaming
from tidelog.spark.source.offsets import ORIGIN

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

_QUERY = """
import os, signal, sys
from tidelog.spark import spark_session

servers, topic, checkpoint = sys.argv[1:]
spark = spark_session("killed", master="local[1]", settings={"spark.driver.memory": "512m", "spark.log.level": "OFF"})
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()

def die(batch, batch_id):
    batch.count()
    os.kill(jvm, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)

stream = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
stream.writeStream.foreachBatch(die).option("checkpointLocation", checkpoint).start().awaitTermination(120)
"""


class Writing:
    """Writes numbers, each to the offset of its own name, until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 1})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(SECONDS) == 0

    def _write(self) -> None:
        while not self._stop.wait(0.005):
            self._producer.produce(self._topic, b"%d" % self.count, partition=0)
            self._producer.poll(0)
            self.count += 1


def _first_offsets(checkpoint: Path, topic: str) -> tuple[int, int]:
    """Where the first micro-batch began and ended, by what Spark wrote down before it ran."""
    end = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[-1])
    return end[ORIGIN][topic]["0"], end[topic]["0"]


@pytest.mark.long
def test_a_query_killed_in_its_first_batch_reads_that_batch_again(spark, broker, tmp_path):
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    with Writing(servers, topic) as writing:
        killed = subprocess.run(
            [sys.executable, "-c", _QUERY, servers, topic, str(tmp_path)], capture_output=True, timeout=240, check=False
        )
        assert killed.returncode == -9, killed.stderr.decode()[-2000:]
    assert not (tmp_path / "commits" / "0").exists()
    start, end = _first_offsets(tmp_path, topic)
    collected = Collected()
    collected.run(streaming(spark, servers, subscribe=topic), tmp_path)
    assert sorted(collected.batches[0]) == list(range(start, end))
    assert collected.all == list(range(start, writing.count))
