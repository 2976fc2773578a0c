"""The sink with faults built in: it stops, or raises, at a chosen point of a chosen batch. Imported by Spark's workers.

A fault that stops writes the file `<name>.reached` and waits: the test can then kill the driver with
certainty that it was there. If `<name>.go` appears instead, the worker goes on and notes in `<name>.outcome` how it
ended, which is how a zombie is watched.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from tidelog.client.aio.connection import BrokerConnection
from tidelog.client.cluster import Cluster
from tidelog.spark.data_source import TidelogDataSource
from tidelog.spark.options import Options
from tidelog.spark.sink import task as sink_task
from tidelog.spark.sink.clients import PRODUCERS
from tidelog.spark.sink.deliveries import Delivery, Messages, make_delivery
from tidelog.spark.sink.messages import Written, current_task
from tidelog.spark.sink.rows import check_columns
from tidelog.spark.sink.settings import read_stream_settings
from tidelog.spark.sink.writers import StreamWriter
from tidelog.wire.api_keys import ApiKey

STUCK_S = 600.0


class FaultyDataSource(TidelogDataSource):
    """The format `tidelog` with the options `fault`, `faultBatch` and `faultFile`."""

    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        settings = read_stream_settings(Options(self.options))
        delivery = make_delivery(settings, check_columns(schema, settings.topic))
        if self.options.get("fault"):
            fault = Fault(self.options["fault"], int(self.options["faultBatch"]), self.options["faultFile"])
            delivery = FaultyDelivery(delivery, fault)
        return StreamWriter(delivery)


class Fault:
    """Where and when."""

    def __init__(self, point: str, batch_id: int, file: str) -> None:
        self.point = point
        self.batch_id = batch_id
        self.file = file

    def is_at(self, point: str, batch_id: int | None) -> bool:
        return point == self.point and batch_id == self.batch_id

    def stop_here(self) -> None:
        """Wait to be killed, or to be let go."""
        self.outlive_the_driver()
        self.wait()

    def outlive_the_driver(self) -> None:
        """To be called in the main thread, as Python wants it."""
        # Spark's daemon takes its workers along when the driver dies; those of another machine would live on.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def wait(self) -> None:
        """Note that the point is reached, and wait."""
        self.note("reached", str(os.getpid()))
        go = Path(self.file + ".go")
        deadline = time.monotonic() + STUCK_S
        while not go.exists():
            if time.monotonic() > deadline:
                os._exit(1)
            time.sleep(0.02)

    def note(self, what: str, text: str) -> None:
        draft = Path(f"{self.file}.{what}.{os.getpid()}")
        draft.write_text(text)
        draft.replace(f"{self.file}.{what}")


class FaultyDelivery:
    """A delivery with a fault in it."""

    def __init__(self, inner: Delivery, fault: Fault) -> None:
        self._inner = inner
        self._fault = fault

    def begin(self) -> None:
        self._inner.begin()

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        task = current_task()
        points = ("mid-write", "raise", "raise-once")
        if task.batch_id != self._fault.batch_id or self._fault.point not in points or task.partition_id != 0:
            return self._inner.write(batches)
        # Each Arrow batch is sent at once, so that a half of them is stored; the process ends with this fault.
        patch.object(sink_task, "PIECE_BYTES", 1).start()
        try:
            written = self._inner.write(self._interrupted(batches, task.attempt))
        except Exception as error:
            self._fault.note("outcome", f"{type(error).__name__}: {error}")
            raise
        self._fault.note("outcome", "written")
        return written

    def _interrupted(self, batches: Iterator[pa.RecordBatch], attempt: int) -> Iterator[pa.RecordBatch]:
        yield next(batches)
        for producer in PRODUCERS._clients.values():
            producer.flush()
        if self._fault.point == "mid-write":
            self._fault.stop_here()
        elif self._fault.point == "raise" or attempt == 0:
            raise RuntimeError("injected failure of a task")
        yield from batches

    def commit(self, messages: Messages, batch_id: int | None) -> None:
        if self._fault.is_at("before-commit", batch_id):
            self._fault.stop_here()
        if self._fault.is_at("in-commit", batch_id):
            self._stop_at_end(before=True)
        if self._fault.is_at("end-unanswered", batch_id):
            self._stop_at_end(before=False)
        self._inner.commit(messages, batch_id)
        if self._fault.is_at("after-commit", batch_id):
            self._fault.stop_here()

    def _stop_at_end(self, *, before: bool) -> None:
        """Stop when the number of the batch is written: before EndTxn, or when EndTxn is sent and not answered."""
        fault, end, accept = self._fault, Cluster.end_transaction, BrokerConnection._accept

        def stopping(self: Cluster, *arguments: Any, **keywords: Any) -> None:
            fault.stop_here()
            end(self, *arguments, **keywords)

        def leaving_unread(self: BrokerConnection, frame: Any) -> None:
            if self._pending[0].api_key == ApiKey.END_TXN:
                fault.wait()
            accept(self, frame)

        if before:
            Cluster.end_transaction = stopping  # type: ignore[method-assign]
        else:
            fault.outlive_the_driver()
            BrokerConnection._accept = leaving_unread  # type: ignore[method-assign]

    def abort(self, messages: Messages) -> None:
        self._inner.abort(messages)
