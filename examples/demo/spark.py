"""The main demonstration: a broker, a producer of orders, an exactly-once Spark pipeline, rows that fail, a plot.

Everything it starts it stops, also when interrupted, and everything it writes but the picture it removes. The pipeline
is the example `enrich_orders`, with a ladder of shorter delays; in the middle it is stopped and started again.
"""

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_line, print_table
from tidelog.cli.quiet import last_lines, quiet_children

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.examples.demo.orders import OrderStream
    from tidelog.examples.demo.plot import Sample, Span
    from tidelog.examples.demo.watch import OutputReader, Tally
    from tidelog.spark.pipeline.definition.pipeline import Pipeline
    from tidelog.spark.pipeline.running.run import Running

_NEEDED: Final = ("pyspark", "pyarrow", "pandas", "matplotlib", "plotext")
_DELAYS: Final = ("2s", "3s")
_DEAD_LETTERS: Final = "orders.dlq"
_OUTPUT: Final = "orders.enriched"
_PARTITIONS: Final = 2
"""As many as there are cores: each partition is a task in every batch."""
_STUCK_S: Final = 180.0
_SESSION: Final = {
    "spark.driver.memory": "1g",
    # A minute is too short for the larger of Java's compilers to pay: this halves what it takes on two cores.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}

_SUMMARY: Final = """
What happened
  {total:,} orders went in, {rate:,} a second; {seen:,} came out with their customers, each exactly once.
  The pipeline was stopped in the middle of a batch and went on from its checkpoint after {gap:.1f} s.
  One order came before its customer was known: it was retried and came out.
  {dead} orders failed every time: they are dead letters, with the error in their headers.
  Throughput and lag are drawn in {picture}. All of it took {seconds:.0f} s.

What to try next
  tidelog serve                                              a broker to keep, on 127.0.0.1:9092
  python -m tidelog.examples fill enrich_orders              in another terminal: orders and customers
  tidelog pipeline run {example}
                                                             the same pipeline, with a live view
  tidelog consume orders.enriched --from-beginning           what it writes
  python -m tidelog.examples                                 the other examples
  tidelog demo exactly-once                                  clients that are killed, without Spark
docs/pipelines.md explains how to write your own, docs/examples.md explains the examples."""


def run(seconds: int, rate: int, picture: str) -> None:
    """The whole demonstration. Raises CommandError if anything is not as it must be."""
    _demand_spark()
    _demand_place(picture)
    from tidelog.testing.broker import Broker

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-", ignore_cleanup_errors=True) as directory:
        log = os.path.join(directory, "spark.log")
        with quiet_children(log), Broker(process=True) as broker:
            _say(f"broker ready at {broker.bootstrap_servers}")
            try:
                with _session(directory) as spark:
                    story = _Story(spark, broker.bootstrap_servers, directory)
                    story.play(seconds, rate)
            except (CommandError, KeyboardInterrupt):
                raise
            except Exception as error:
                raise CommandError(f"Spark failed: {_first_line(error)}\n{last_lines(log)}".rstrip()) from error
    _say("everything is stopped and removed")
    _report(story, picture, rate, time.monotonic() - began)


class _Story:
    """Producer, pipeline and reader, and what is seen of them."""

    def __init__(self, spark: "SparkSession", servers: str, directory: str) -> None:
        self._spark = spark
        self._servers = servers
        self._pipeline = _demo_pipeline(directory)
        self._running: Running | None = None
        self.samples: list[Sample] = []
        self.spans: list[Span] = []
        self.tally: Tally | None = None
        self.total = 0

    def play(self, seconds: int, rate: int) -> None:
        """Run it to its end: everything came out, or is dead."""
        from tidelog.examples import data
        from tidelog.examples.demo.orders import CUSTOMERS, OrderStream
        from tidelog.examples.demo.watch import OutputReader, Sampler
        from tidelog.examples.topics import make_topics, send_events
        from tidelog.spark.pipeline.failing.routing import ladder_of

        make_topics(self._servers, ["orders", "customers", _OUTPUT], partitions=_PARTITIONS)
        send_events(self._servers, data.customers(CUSTOMERS))
        orders = OrderStream(self._servers, seconds, rate)
        sampler = Sampler(lambda: orders.sent, self._processed)
        self._start()
        ladder = ladder_of(self._pipeline)
        assert ladder is not None, "the demo's pipeline has a policy"
        first_retry = {ladder.retry_topics[0]: orders.on_retry}
        reader = OutputReader(self._servers, _OUTPUT, _DEAD_LETTERS, first_retry)
        self.tally, self.samples, self.total = reader.tally, sampler.samples, orders.total
        try:
            with _waiting("first orders through the pipeline"):
                self._warm_up(orders, reader)
            orders.start()
            sampler.start()
            self._watch(orders, reader, sampler.elapsed)
        finally:
            orders.stop()
            sampler.stop()
            self._stop()
            reader.close()
        _check(reader.tally, orders)

    def _warm_up(self, orders: "OrderStream", reader: "OutputReader") -> None:
        """The first batch starts processes and takes seconds; what is drawn begins after it."""
        count = orders.send_first()
        deadline = time.monotonic() + _STUCK_S
        while len(reader.tally.seen) < count:
            reader.read(0.2)
            self._raise_failure()
            if time.monotonic() > deadline:
                raise CommandError(f"no order has come out for {_STUCK_S:.0f} s")

    def _watch(self, orders: "OrderStream", reader: "OutputReader", elapsed: Callable[[], float]) -> None:
        from tidelog.examples.demo.bars import two_bars
        from tidelog.examples.demo.orders import DEAD

        tally, expected = reader.tally, len(orders.expected)
        moved = time.monotonic()
        with two_bars(orders.total, expected) as show:
            while len(tally.seen) < expected or len(tally.dead) < DEAD:
                if reader.read(0.2):
                    moved = time.monotonic()
                show(orders.sent, len(tally.seen))
                if orders.error is not None:
                    raise CommandError(f"the producer failed: {orders.error}")
                if not self.spans and orders.sent > orders.total // 2:
                    self._restart(elapsed)
                self._raise_failure()
                if time.monotonic() - moved > _STUCK_S:
                    raise CommandError(f"nothing has come out for {_STUCK_S:.0f} s: {len(tally.seen):,} are there")
            show(orders.sent, len(tally.seen))

    def _start(self) -> None:
        from tidelog.spark.pipeline.running.run import start

        self._running = start(self._pipeline, self._spark, servers=self._servers)

    def _stop(self) -> None:
        """Stop at any step: an unfinished batch is aborted, and repeated by the next run."""
        if self._running is not None:
            self._running.stop(patience_s=0)

    def _restart(self, elapsed: Callable[[], float]) -> None:
        """Stop it, and start it again on its checkpoint."""
        from tidelog.examples.demo.plot import Span

        stopped = elapsed()
        self._stop()
        self._start()
        self.spans.append(Span(stopped, elapsed(), "stopped,\nstarted again"))

    def _raise_failure(self) -> None:
        assert self._running is not None, "the pipeline runs"
        for query in self._running.queries:
            failure = query.exception()
            if failure is not None:
                raise failure

    def _processed(self) -> int:
        from tidelog.examples.demo.watch import records_reached

        queries = self._running.queries if self._running is not None else []
        return sum(records_reached(query.lastProgress, "orders") for query in queries)


def _demo_pipeline(directory: str) -> "Pipeline":
    from tidelog.examples.enrich_orders import pipeline
    from tidelog.spark.pipeline import RetryLadder

    ladder = RetryLadder(delays=_DELAYS, dead_letters=_DEAD_LETTERS)
    return replace(pipeline, on_failure=ladder, checkpoint=os.path.join(directory, "checkpoint"))


@contextmanager
def _session(directory: str) -> "Iterator[SparkSession]":
    """A Spark session that leaves nothing behind."""
    from tidelog.spark.internals import end_java
    from tidelog.spark.session import spark_session

    # On a machine that has never run them, kernels are compiled once: here, while Java starts, and not in each task.
    compiling = threading.Thread(target=_compile_kernels, daemon=True)
    compiling.start()
    settings = {
        **_SESSION,
        "spark.local.dir": directory,
        "spark.sql.warehouse.dir": os.path.join(directory, "warehouse"),
    }
    try:
        with _waiting("starting Spark"):
            spark = spark_session("tidelog-demo", master="local[2]", settings=settings, local_checkpoints=True)
            compiling.join()
        yield spark
    finally:
        end_java()


def _compile_kernels() -> None:
    """Decode and encode one record, as the tasks will."""
    import pyarrow as pa

    from tidelog.client.aio.consumer.types import FetchedBatches
    from tidelog.client.aio.producer.settings import load_producer_settings
    from tidelog.client.arrow.reading import to_table
    from tidelog.client.arrow.writing import Meaning, TableWriter

    table = pa.table({"key": [b"k"], "value": [b"v"]})
    writer = TableWriter(load_producer_settings({"bootstrap.servers": "127.0.0.1:9092"}, None))
    for batches in writer.encode(table, "t", 1, Meaning()):
        for batch in batches:
            to_table([FetchedBatches("t", 0, memoryview(batch.data), 0, 1, ())])


@contextmanager
def _waiting(what: str) -> Iterator[None]:
    """Progress on a terminal."""
    began = time.monotonic()
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(what):
            yield
    else:
        yield
    _say(f"{what}: {time.monotonic() - began:.1f} s")


def _check(tally: "Tally", orders: "OrderStream") -> None:
    """Every order once, and none that should be dead."""
    expected = orders.expected
    if tally.repeated or tally.seen != expected:
        raise CommandError(
            f"{tally.repeated} orders came out more than once, {len(expected - tally.seen)} are missing, "
            f"{len(tally.seen - expected)} should not be there"
        )


def _report(story: _Story, picture: str, rate: int, seconds: float) -> None:
    from tidelog.examples.demo.plot import draw_in_terminal, draw_picture

    tally = story.tally
    assert tally is not None, "the story was played"
    print_line("\nThe last orders that came out")
    shown = ("order_id", "customer_id", "country", "tier", "sku", "quantity", "total_cents")
    print_table([name.upper() for name in shown], [[_cell(order.get(name)) for name in shown] for order in tally.last])
    print_line("\nDead letters")
    room = min(60, max(16, shutil.get_terminal_size().columns - len("attempts") - 44 - 4))
    print_table(
        ("ATTEMPTS", "REASON", "VALUE"),
        [(int(each.attempts), _cut(each.reason, 44), _cut(each.value, room)) for each in tally.dead],
    )
    print_line()
    print_line(draw_in_terminal(story.samples, is_colored=sys.stdout.isatty()))
    title = f"{story.total:,} orders through an exactly-once Spark pipeline"
    draw_picture(picture, story.samples, story.spans, title)
    gap = sum(span.end - span.start for span in story.spans)
    print_line(
        _SUMMARY.format(
            total=story.total,
            rate=rate,
            seen=len(tally.seen),
            dead=len(tally.dead),
            gap=gap,
            picture=picture,
            seconds=seconds,
            example=_example_file(),
        )
    )


def _example_file() -> str:
    """The pipeline's file, as it is named from here."""
    from tidelog.examples import enrich_orders

    path = str(enrich_orders.__file__)
    return min(path, os.path.relpath(path), key=len)


def _demand_spark() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise CommandError(
            f"this demo runs Spark, and {', '.join(missing)} is not installed: pip install 'tidelog[demo]' "
            "(`tidelog demo broker` does not need it)"
        )


def _demand_place(picture: str) -> None:
    """Better now than after a minute."""
    directory = os.path.dirname(os.path.abspath(picture))
    if not os.access(directory, os.W_OK):
        raise CommandError(f"--picture {picture}: {directory} is not a writable directory")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _cell(value: Any) -> Any:
    return "" if value is None else value


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _say(text: str) -> None:
    sys.stderr.write(f"tidelog: {text}\n")
