"""A checkpoint that was restored from a backup is refused, wherever it lies and however batches are written.

Spark plans the batch after the backup again under its old number, with the rows that came since; to take it for the
batch that was committed under that number would lose these rows. `test_sink_transactions` has the same without Spark.
"""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.integration.spark.pipeline_support import forget_last_commit
from tests.integration.spark.sink_checks import read_rows
from tidelog.client import Admin, Producer
from tidelog.spark import write_each_batch
from tidelog.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Start = Callable[..., None]

_numbers = itertools.count()


def stream(rows: DataFrame, checkpoint: str, **options: str) -> None:
    writer = rows.writeStream.format("tidelog").options(**options).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination(100)


def each_batch(rows: DataFrame, checkpoint: str, **options: str) -> None:
    writer = rows.writeStream.foreachBatch(write_each_batch(**options)).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination(100)


def viewfs(spark: SparkSession, directory: Path) -> str:
    """`directory` on a Hadoop file system that is not Python's."""
    table = f"mounts{next(_numbers)}"
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(f"fs.viewfs.mounttable.{table}.link./here", directory.as_uri())
    return f"viewfs://{table}/here/checkpoint"


@pytest.mark.long
def test_a_query_whose_state_is_gone_on_both_sides_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """With Spark's commits alone, or the state topic alone, it goes on, and nothing comes twice."""
    source, sink, state = (f"{name}-{next(_numbers)}" for name in ("source", "sink", "state"))
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    for name in (source, sink):
        broker.create_topic(name, 1)
    rows = spark.readStream.format("tidelog").options(**servers, subscribe=source, startingOffsets="earliest").load()
    local = tmp_path / "checkpoint"

    def run(*values: int) -> None:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in values:
                producer.send(source, b"%d" % value)
        stream(rows.select("value"), str(local), **servers, topic=sink, stateTopic=state)

    def forget_state() -> None:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.delete_topics([state])

    def forget_commits() -> None:
        for each in (local / "commits").iterdir():
            each.unlink()

    run(0)
    run(1)
    forget_commits()
    run(2)
    forget_state()
    run(3)
    assert [row.value for row in read_rows(broker.bootstrap_servers, sink)] == [0, 1, 2, 3]
    forget_commits()
    forget_state()
    with pytest.raises(StreamingQueryException, match="was written before cannot be known"):
        run(4)
    assert [row.value for row in read_rows(broker.bootstrap_servers, sink)] == [0, 1, 2, 3]


@pytest.mark.long
@pytest.mark.parametrize(
    ("start", "place"),
    [(stream, "file"), (stream, "viewfs"), (each_batch, "path"), (each_batch, "viewfs")],
    ids=[
        "a stream at a file URL",
        "a stream on another file system",
        "foreachBatch",
        "foreachBatch on another file system",
    ],
)
def test_a_restored_checkpoint_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path, start: Start, place: str
) -> None:
    source, sink = (f"{name}-{next(_numbers)}" for name in ("source", "sink"))
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    for name in (source, sink):
        broker.create_topic(name, 1)
    rows = spark.readStream.format("tidelog").options(**servers, subscribe=source, startingOffsets="earliest").load()
    local = tmp_path / "checkpoint"
    checkpoint = {"path": str(local), "file": local.as_uri()}.get(place) or viewfs(spark, tmp_path)

    def run(*values: int, **options: str) -> None:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in values:
                producer.send(source, b"%d" % value)
        start(rows.select("value"), checkpoint, **servers, topic=sink, **options)

    def written() -> list[int]:
        return [row.value for row in read_rows(broker.bootstrap_servers, sink)]

    run(0, 1)
    shutil.copytree(local, tmp_path / "backup")
    run(2, 3)
    shutil.copytree(local, tmp_path / "newest")
    forget_last_commit(local)
    run()
    assert written() == [0, 1, 2, 3], "a batch that is repeated after a crash is not refused, and is there once"

    shutil.rmtree(local)
    shutil.copytree(tmp_path / "backup", local)
    with pytest.raises(StreamingQueryException, match="restored from a backup or copied"):
        run(4)
    assert written() == [0, 1, 2, 3], "nothing is written"

    shutil.rmtree(local)
    shutil.copytree(tmp_path / "newest", local)
    run()
    assert written() == [0, 1, 2, 3, 4], "the newest checkpoint goes on, and nothing is lost"
