"""Histories of crashes, drawn at random: whatever happened before, each row is committed once, and in order."""

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import WriterCommitMessage

from tests.integration.spark.sink_checks import read_messages
from tests.integration.spark.sink_world import Query, rows_of
from tests.unit.present import present
from tidelog.client.cluster import Cluster
from tidelog.spark.clients import CLUSTERS
from tidelog.spark.sink import clients, committed_batches
from tidelog.spark.sink.errors import SinkError
from tidelog.testing import Broker

PARTITIONS = 3
ROWS_PER_BATCH = 6

_numbers = itertools.count()


class Killed(BaseException):
    """The process is gone: nothing that would handle an error handles this."""


class Step(NamedTuple):
    """An attempt to write the next batch, in so many tasks, and where it is interrupted."""

    fate: str
    tasks: int
    is_new_process: bool


FATES = ("done", "planned", "one-written", "written", "numbered", "ended", "overtaken")
steps = st.lists(
    st.builds(Step, st.sampled_from(FATES), st.integers(1, PARTITIONS), st.booleans()), min_size=1, max_size=8
)


@pytest.fixture(autouse=True, scope="module")
def no_clients_left() -> Iterator[None]:
    yield
    clients.PRODUCERS.close_all()
    CLUSTERS.close_all()


class History:
    """One query on one checkpoint, started again after each crash."""

    def __init__(self, servers: str, topic: str, delivery: str) -> None:
        self._servers = servers
        self._topic = topic
        self._delivery = delivery
        self._runs = itertools.count()
        self._query = self._start()
        self.batch_id = 0

    def _start(self) -> Query:
        return Query(
            self._servers,
            self._topic,
            checkpoint=self._topic,
            run_id=f"run-{next(self._runs)}",
            columns=("value", "partition"),
            delivery=self._delivery,
        )

    def take(self, step: Step) -> None:
        if step.is_new_process:
            committed_batches._KNOWN.clear()
        rows = self._rows(step.tasks)
        query, batch_id = self._query, self.batch_id
        planned = query.plan()
        if step.fate == "done":
            query.commit(query.write(planned, batch_id, rows), batch_id)
            self.batch_id += 1
            return
        if step.fate == "one-written":
            query.run_task(planned, batch_id, 0, rows[0])
        elif step.fate != "planned":
            messages = query.write(planned, batch_id, rows)
            if step.fate == "numbered":
                # A batch that is known already may need no end.
                with suppress(Killed), killed_before_the_end():
                    query.commit(messages, batch_id)
            elif step.fate == "ended":
                query.commit(messages, batch_id)
        # Spark did not note this batch as done, so the next run gets it again.
        self._query = self._start()
        if step.fate == "overtaken":
            self._overtake(query, messages)

    def _overtake(self, old: Query, messages: list[WriterCommitMessage | None]) -> None:
        """The next run writes the batch while the old driver lives; then the old one wants to commit."""
        batch_id = self.batch_id
        self._query.run(batch_id, self._rows(PARTITIONS))
        self.batch_id += 1
        if self._delivery == "small":
            old.commit(messages, batch_id)  # it begins only now, and finds the batch in the memory
        else:
            with pytest.raises(SinkError, match="ended or fenced"):
                old.commit(messages, batch_id)

    def _rows(self, tasks: int) -> list[object]:
        """The rows of the batch, each in the partition of its number; all of a partition in one task."""
        first = self.batch_id * ROWS_PER_BATCH
        shares: list[list[int]] = [[] for _ in range(tasks)]
        for number in range(first, first + ROWS_PER_BATCH):
            shares[number % PARTITIONS % tasks].append(number)
        return [
            rows_of(value=[b"%d" % number for number in share], partition=[number % PARTITIONS for number in share])
            for share in shares
        ]


class killed_before_the_end:
    """`with killed_before_the_end()`: EndTxn is never sent."""

    def __enter__(self) -> None:
        self._end = Cluster.end_transaction

        def never(*_: object, **__: object) -> None:
            raise Killed

        Cluster.end_transaction = never  # type: ignore[method-assign,assignment]

    def __exit__(self, *_: object) -> None:
        Cluster.end_transaction = self._end  # type: ignore[method-assign]


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=steps, delivery=st.sampled_from(["exactly-once", "exactly-once", "small"]))
def test_each_row_is_there_once_and_in_order(broker: Broker, history: list[Step], delivery: str) -> None:
    topic = f"history-{next(_numbers)}"
    broker.create_topic(topic, PARTITIONS)
    query = History(broker.bootstrap_servers, topic, delivery)
    for step in [*history, Step("done", 2, True)]:
        query.take(step)

    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    for message in read_messages(broker.bootstrap_servers, topic):
        found[present(message.partition())].append(int(present(message.value())))
    last = query.batch_id * ROWS_PER_BATCH
    assert found == {partition: list(range(partition, last, PARTITIONS)) for partition in range(PARTITIONS)}
