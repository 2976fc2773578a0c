"""The writers that Spark plans, pickles and calls: where the transaction begins, and what is refused."""

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from tidelog.spark.options import OptionError
from tidelog.spark.sink.deliveries import AtLeastOnce, ExactlyOnce, Messages, SmallOutput
from tidelog.spark.sink.messages import TaskFacts, Written
from tidelog.spark.sink.writers import BatchWriter, StreamWriter, make_batch_writer, make_stream_writer

KEY, VALUE = StructField("key", StringType()), StructField("value", StringType())
SCHEMA = StructType([KEY, VALUE])
OPTIONS = {"kafka.bootstrap.servers": "localhost:9092", "topic": "out", "checkpointlocation": "/c"}


class RecordingDelivery:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended: list[object] = []

    def begin(self) -> None:
        self.begun += 1

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        del batches
        return Written(TaskFacts(0, 0, None, None, None), None)

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        self.ended.append(("commit", list(messages), batch_id))

    def abort(self, messages: Messages) -> None:
        self.ended.append(("abort", list(messages)))


@pytest.mark.parametrize("writer", [StreamWriter, BatchWriter])
def test_only_the_writer_that_is_planned_begins(writer: type[StreamWriter] | type[BatchWriter]) -> None:
    """Spark makes writers to plan and to commit alike; only those for committing are pickled."""
    delivery = RecordingDelivery()
    planned = writer(delivery)
    assert delivery.begun == 0

    copy = pickle.loads(pickle.dumps(planned))

    assert delivery.begun == 1
    assert copy._delivery.begun == 1


def test_writers_pass_on_what_spark_asks() -> None:
    delivery = RecordingDelivery()
    stream, batch = StreamWriter(delivery), BatchWriter(delivery)
    message = stream.write(iter(()))
    stream.commit([message], 7)
    stream.abort([None], 7)
    batch.commit([message])
    batch.abort([None])

    assert delivery.ended == [
        ("commit", [message], 7),
        ("abort", [None]),
        ("commit", [message], None),
        ("abort", [None]),
    ]


@pytest.mark.parametrize(
    ("delivery", "kind"), [("exactly-once", ExactlyOnce), ("at-least-once", AtLeastOnce), ("small", SmallOutput)]
)
def test_the_option_delivery_chooses_the_promise(delivery: str, kind: type) -> None:
    assert isinstance(make_stream_writer(SCHEMA, {**OPTIONS, "delivery": delivery}, overwrite=False)._delivery, kind)


def test_complete_mode_is_taken_as_rows_to_be_added() -> None:
    assert make_stream_writer(SCHEMA, OPTIONS, overwrite=True)


def test_a_topic_cannot_be_overwritten() -> None:
    with pytest.raises(OptionError, match=r"Use mode\('append'\)"):
        make_batch_writer(SCHEMA, OPTIONS, overwrite=True)


def test_columns_are_checked_when_the_write_is_planned() -> None:
    with pytest.raises(OptionError, match="the column 'value' is missing"):
        make_batch_writer(StructType([KEY]), OPTIONS, overwrite=False)


def test_rows_of_small_outputs_ride_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.spark.sink import deliveries

    monkeypatch.setattr(deliveries, "current_task", lambda: TaskFacts(0, 2, "q", 1, "r"))
    writer = make_stream_writer(SCHEMA, {**OPTIONS, "delivery": "small"}, overwrite=False)
    rows = pa.RecordBatch.from_pydict({"key": ["a"], "value": ["1"]})

    message = writer.write(iter([rows, rows.slice(1)]))

    assert isinstance(message, Written)
    assert message.rows is not None
    assert pa.ipc.open_stream(message.rows).read_all().to_pydict() == {"key": ["a"], "value": ["1"]}


def test_the_options_name_query_and_batch_where_tasks_do_not_know_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.spark.sink import deliveries

    monkeypatch.setattr(deliveries, "current_task", lambda: TaskFacts(3, 0, None, None, "r"))
    named = {"delivery": "small", "transactionalId": "mine", "batchNumber": "7"}
    message = make_batch_writer(SCHEMA, {**OPTIONS, **named}, overwrite=False).write(iter(()))

    assert isinstance(message, Written)
    assert message.task == TaskFacts(3, 0, "mine", 7, "r")
