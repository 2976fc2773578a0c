"""One transaction for each batch, as tasks and driver share it, against a broker but without Spark."""

import itertools
import pickle
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from tests.integration.spark.sink_checks import read_messages
from tests.integration.spark.sink_world import Query, rows_of, task_is, write_batch
from tests.unit.present import present
from tidelog.client import Admin
from tidelog.client.cluster import Cluster
from tidelog.spark.clients import CLUSTERS
from tidelog.spark.sink import clients
from tidelog.spark.sink.errors import SinkError
from tidelog.spark.sink.messages import TaskFacts, Written
from tidelog.spark.sink.settings import default_transactional_id
from tidelog.testing import Broker

_numbers = itertools.count()


@pytest.fixture(autouse=True)
def no_clients_left() -> Iterator[None]:
    yield
    clients.PRODUCERS.close_all()
    CLUSTERS.close_all()


@pytest.fixture
def topic(broker: Broker) -> str:
    """A topic of four partitions that no other test uses."""
    name = f"out-{next(_numbers)}"
    broker.create_topic(name, 4)
    return name


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return sorted((message.value() for message in read_messages(broker.bootstrap_servers, topic)), key=str)


def task(*numbers: int, partition: int | None = None) -> object:
    """Rows of one task, without key; in `partition`, or where the sink puts them."""
    payload = [b"%d" % number for number in numbers]
    if partition is None:
        return rows_of(key=[None] * len(payload), value=payload)
    return rows_of(value=payload, partition=[partition] * len(payload))


def _noted(checkpoint: Path, batch_id: int) -> str:
    """Do as Spark does before it plans a batch: note its offsets and the time."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch_id)).write_text(f"planned at {time.time_ns()}")
    return str(checkpoint)


PLACED = ("value", "partition")


class TestABatch:
    def test_is_seen_as_a_whole_and_not_before_its_commit(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        messages = query.write(query.plan(), 0, [task(1, 2), task(3), task(4)])
        assert values(broker, topic) == []

        query.commit(messages, 0)

        assert values(broker, topic) == [b"1", b"2", b"3", b"4"]

    def test_that_was_committed_before_a_crash_is_not_written_again(self, broker: Broker, topic: str) -> None:
        Query(broker.bootstrap_servers, topic, checkpoint=topic).run(0, [task(1, 2), task(3, 4)])

        # After the restart the same rows come in other tasks.
        again = Query(broker.bootstrap_servers, topic, checkpoint=topic, run_id="run-2")
        again.run(0, [task(1), task(2, 3), task(4)])
        again.run(1, [task(5)])

        assert values(broker, topic) == [b"1", b"2", b"3", b"4", b"5"]

    def test_of_a_new_query_on_the_same_path_is_written(self, broker: Broker, topic: str) -> None:
        """A deleted checkpoint begins at batch 0 again, under a new id; keyed by path it would be skipped."""
        Query(broker.bootstrap_servers, topic, checkpoint=topic, query_id="old").run(0, [task(1)])
        Query(broker.bootstrap_servers, topic, checkpoint=topic, query_id="new").run(0, [task(2)])

        assert values(broker, topic) == [b"1", b"2"]

    def test_of_a_checkpoint_older_than_what_was_written_is_refused(self, broker: Broker, topic: str) -> None:
        """Restored from a backup: Spark plans the batch again, with more rows than the one of that number had."""
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        for batch_id in range(3):
            query.run(batch_id, [task(batch_id)])

        restored = Query(broker.bootstrap_servers, topic, checkpoint=topic, run_id="run-2")
        with pytest.raises(SinkError, match=r"batch 1 .* up to 2.*restored from a backup or copied"):
            restored.run(1, [task(1, 2, 3)])

        assert values(broker, topic) == [b"0", b"1", b"2"]

    def test_that_another_checkpoint_planned_is_not_taken_for_it(
        self, broker: Broker, topic: str, tmp_path: Path
    ) -> None:
        """A checkpoint was copied, and both go on with the same number: to skip either would lose its rows."""
        first = Query(broker.bootstrap_servers, topic, checkpoint=_noted(tmp_path / "first", 0), query_id="q")
        first.run(0, [task(1)])
        copied = tmp_path / "copied"
        shutil.copytree(tmp_path / "first", copied)
        again = Query(broker.bootstrap_servers, topic, checkpoint=str(copied), query_id="q", run_id="run-2")
        again.run(0, [task(1)])

        _noted(tmp_path / "first", 1)
        first.run(1, [task(2)])
        _noted(copied, 1)
        with pytest.raises(SinkError, match=r"batch 1 .* restored from a backup or copied"):
            again.run(1, [task(2, 3)])

        assert values(broker, topic) == [b"1", b"2"]

    def test_under_another_transactional_id_is_refused_where_plans_are_unknown(
        self, broker: Broker, topic: str
    ) -> None:
        Query(broker.bootstrap_servers, topic, checkpoint="s3a://a", query_id=topic).run(0, [task(1)])

        copied = Query(broker.bootstrap_servers, topic, checkpoint="s3a://b", query_id=topic, run_id="run-2")
        with pytest.raises(SinkError, match="restored from a backup or copied"):
            copied.run(0, [task(1)])

        moved = Query(
            broker.bootstrap_servers,
            topic,
            checkpoint="s3a://b",
            query_id=topic,
            run_id="run-3",
            transactionalId=default_transactional_id("s3a://a"),
        )
        moved.run(0, [task(1)])
        assert values(broker, topic) == [b"1"]

    def test_may_go_to_a_partition_that_was_added_since_the_last(self, broker: Broker, topic: str) -> None:
        """Producers are kept from batch to batch, and so is what they know of topics."""
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, columns=PLACED)
        query.run(0, [task(1, partition=3)])
        with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
            admin.create_partitions({topic: 5})

        query.run(1, [task(2, partition=4)])

        assert values(broker, topic) == [b"1", b"2"]
        with pytest.raises(SinkError, match="has no partition 5: it has 5"):
            query.run(2, [task(3, partition=5)])

    def test_without_rows_is_remembered_too(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        query.run(0, [task(1)])
        query.run(1, [task(), task()])

        again = Query(broker.bootstrap_servers, topic, checkpoint=topic, run_id="run-2")
        again.run(1, [task(), task()])
        again.run(2, [task(2)])

        assert values(broker, topic) == [b"1", b"2"]

    def test_written_twice_in_one_run_is_an_error(self, broker: Broker, topic: str) -> None:
        """Two writes of one foreachBatch function under one name: the second must not vanish."""
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        query.run(0, [task(1)])

        with pytest.raises(SinkError, match=r"was already written in this run.*its own transactionalId"):
            query.run(0, [task(2)])

    def test_may_go_to_several_topics(self, broker: Broker, topic: str) -> None:
        other = f"{topic}-other"
        broker.create_topic(other, 2)
        query = Query(broker.bootstrap_servers, None, checkpoint=topic, columns=("key", "value", "topic"))
        query.run(0, [rows_of(key=["a", None, "b"], value=[b"1", b"2", None], topic=[topic, other, topic])])

        found = {(message.key(), message.value()) for message in read_messages(broker.bootstrap_servers, topic)}
        assert found == {(b"a", b"1"), (b"b", None)}
        assert values(broker, other) == [b"2"]


class TestTheTimeout:
    def test_is_what_the_brokers_allow_unless_it_is_set(self, broker: Broker, topic: str) -> None:
        """A long first batch would fail and be planned again unchanged with the producer's usual minute."""
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        assert pickle.loads(query.plan())._delivery._transaction.timeout_ms == 15 * 60 * 1000
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, kafka__transaction__timeout__ms="7000")
        assert pickle.loads(query.plan())._delivery._transaction.timeout_ms == 7000


class TestTwoWriters:
    def test_one_after_the_other_are_found_out_by_the_second(self, broker: Broker, topic: str) -> None:
        """As when Spark runs a stage again, whose tasks it counts from attempt 0."""
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, columns=PLACED)
        planned = query.plan()
        query.run_task(planned, 0, 0, task(1, 2, partition=3))

        with pytest.raises(SinkError, match=f"partition 3 of topic '{topic}' is written by another task.*place_rows"):
            query.run_task(planned, 0, 1, task(3, 4, partition=3))
        assert values(broker, topic) == []

    def test_are_reported_before_the_transaction_ends(
        self, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its end fails the other tasks, and Spark shows the error that comes first: theirs would blame another run."""
        is_reported, ended = Event(), Event()
        fence = Cluster.fence_transaction

        def wait_and_fence(self: Cluster, *arguments: Any, **keywords: Any) -> None:
            is_reported.wait(30)
            fence(self, *arguments, **keywords)
            ended.set()

        monkeypatch.setattr(Cluster, "fence_transaction", wait_and_fence)
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, columns=PLACED)
        planned = query.plan()
        query.run_task(planned, 0, 0, task(1, 2, partition=3))
        with pytest.raises(SinkError, match="is written by another task"):
            query.run_task(planned, 0, 1, task(3, 4, partition=3))
        assert not ended.is_set()
        is_reported.set()
        assert ended.wait(30)
        assert open_transactions(broker) == []

    def test_at_the_same_time_are_found_out_by_the_driver(
        self, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Here their batches have the same sequences, so the broker takes the second for a repetition."""
        monkeypatch.setattr(Cluster, "partitions_in_transaction", lambda *_: set())
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, columns=PLACED)
        planned = query.plan()
        messages = query.write(planned, 0, [task(1, 2, partition=3), task(3, 4, partition=3)])

        with pytest.raises(SinkError, match=r"written by the tasks 0 and 1.*place_rows"):
            query.commit(messages, 0)
        assert values(broker, topic) == []
        assert open_transactions(broker) == []

    def test_are_recognised_by_their_sequences_as_well(
        self, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Cluster, "partitions_in_transaction", lambda *_: set())
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, columns=PLACED)
        planned = query.plan()
        query.run_task(planned, 0, 0, task(1, 2, partition=3))

        with pytest.raises(SinkError, match=r"another task writes to it in the same transaction.*place_rows"):
            query.run_task(planned, 0, 1, task(3, 4, 5, partition=3))


class TestRowsWithKeys:
    """They were not placed, and may belong to partitions of other tasks."""

    COLUMNS = ("key", "value")

    def test_are_written_by_the_driver_and_may_come_from_tasks_that_run_again(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, columns=self.COLUMNS)
        rows = [rows_of(key=[b"a", b"b"], value=[b"1", b"2"]), rows_of(key=[b"a", None], value=[b"3", b"4"])]
        planned = query.plan()
        query.write(planned, 0, rows)
        query.commit(query.write(planned, 0, rows, attempt=1), 0)
        again = Query(broker.bootstrap_servers, topic, checkpoint=topic, columns=self.COLUMNS, run_id="run-2")
        again.run(0, rows)
        again.run(1, [rows_of(key=[b"a"], value=[b"5"])])

        assert values(broker, topic) == [b"1", b"2", b"3", b"4", b"5"]
        found = [message.value() for message in read_messages(broker.bootstrap_servers, topic) if message.key() == b"a"]
        assert found == [b"1", b"3", b"5"]
        assert open_transactions(broker) == []

    def test_too_many_for_a_message_lie_beside_a_checkpoint_that_the_task_sees(
        self, broker: Broker, topic: str, tmp_path: Path
    ) -> None:
        (tmp_path / "metadata").write_text('{"id": "beside"}')
        query = Query(
            broker.bootstrap_servers, topic, checkpoint=str(tmp_path), query_id="beside", columns=self.COLUMNS
        )
        messages = query.write(query.plan(), 0, [many_rows(), many_rows()])
        (tmp_path / "unplaced" / "left-by-a-crash.arrow").touch()
        assert len(list((tmp_path / "unplaced").iterdir())) == 3
        query.commit(messages, 0)

        assert len(values(broker, topic)) == 100
        assert list((tmp_path / "unplaced").iterdir()) == []

    def test_too_many_without_such_a_checkpoint_are_written_by_their_task_alone(
        self, broker: Broker, topic: str
    ) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, columns=self.COLUMNS)
        query.run(0, [many_rows()])
        assert len(values(broker, topic)) == 50

        few = rows_of(key=[b"same"], value=[b"few"])
        with pytest.raises(SinkError, match=r"a task with many rows, and by another with few.*place_rows"):
            query.run(1, [many_rows(), few])
        assert len(values(broker, topic)) == 50
        assert open_transactions(broker) == []


def many_rows() -> pa.RecordBatch:
    """Five megabytes of one key."""
    return rows_of(key=[b"same"] * 50, value=[bytes(100_000)] * 50)


class TestATask:
    def test_that_runs_again_is_refused_and_ends_the_batch(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        planned = query.plan()
        finished = query.run_task(planned, 0, 0, task(1))

        with pytest.raises(SinkError, match=r"runs for the 2\. time"):
            query.run_task(planned, 0, 1, task(2), attempt=1)
        with pytest.raises(SinkError, match="ended or fenced"):
            query.commit([finished], 0)

        query.run(0, [task(1), task(2)])
        assert values(broker, topic) == [b"1", b"2"]

    def test_whose_rows_were_aborted_behind_its_back_is_missed(self, broker: Broker, topic: str) -> None:
        """Spark may run again only the task that failed, in a new attempt of the stage, and keep the others."""
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        planned = query.plan()
        finished = query.run_task(planned, 0, 0, task(1))
        assert isinstance(finished, Written)
        transaction = present(finished.transaction)
        with Cluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
            cluster.end_transaction(transaction.handle, is_commit=False)
        repeated = query.run_task(planned, 0, 1, task(2))

        with pytest.raises(SinkError, match="was aborted while tasks wrote in it"):
            query.commit([finished, repeated], 0)
        assert values(broker, topic) == []

    def test_that_fails_leaves_nothing_open(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, columns=PLACED)

        with pytest.raises(SinkError, match="has no partition 9"):
            query.run_task(query.plan(), 0, 0, task(1, partition=9))
        assert open_transactions(broker) == []

    def test_whose_input_ends_in_an_error_leaves_nothing_open(self, broker: Broker, topic: str) -> None:
        """As when a query is stopped: Spark closes the stream of rows to the worker."""
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        planned = query.plan()

        def rows() -> Iterator[object]:
            yield task(*range(400_000))
            assert open_transactions(broker) != []
            raise EOFError

        with task_is(TaskFacts(0, 0, "q", 0, "r")), pytest.raises(EOFError):
            pickle.loads(planned).write(rows())
        assert open_transactions(broker) == []

    def test_without_key_keeps_to_a_partition_of_its_own_and_moves_on_with_the_batch(
        self, broker: Broker, topic: str
    ) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        for batch_id in range(4):
            query.run(batch_id, [task(batch_id), task(batch_id)])

        found = [present(message.partition()) for message in read_messages(broker.bootstrap_servers, topic)]
        assert sorted(found) == [0, 0, 1, 1, 2, 2, 3, 3]

    def test_beyond_the_number_of_partitions_is_refused(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)

        with pytest.raises(SinkError, match="place_rows"):
            query.write(query.plan(), 0, [task(number) for number in range(5)])


class TestASecondDriver:
    def test_fences_the_first_with_all_its_tasks(self, broker: Broker, topic: str) -> None:
        first = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        planned = first.plan()
        written = first.run_task(planned, 0, 0, task(1))
        second = Query(broker.bootstrap_servers, topic, checkpoint=topic, run_id="run-2")
        replanned = second.plan()

        with pytest.raises(SinkError, match=r"another run has taken over.*second driver"):
            first.run_task(planned, 0, 1, task(2))
        with pytest.raises(SinkError, match="another run has taken over"):
            first.commit([written], 0)

        second.commit(second.write(replanned, 0, [task(1), task(2)]), 0)
        assert values(broker, topic) == [b"1", b"2"]

    def test_is_not_disturbed_by_the_end_of_the_first(self, broker: Broker, topic: str) -> None:
        first = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        written = first.run_task(first.plan(), 0, 0, task(1))
        second = Query(broker.bootstrap_servers, topic, checkpoint=topic, run_id="run-2")
        messages = second.write(second.plan(), 0, [task(1)])

        first.writer().abort([written, None], 0)

        second.commit(messages, 0)
        assert values(broker, topic) == [b"1"]


class TestAnAbort:
    def test_undoes_what_finished_tasks_wrote(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        written = query.run_task(query.plan(), 0, 0, task(1))

        query.writer().abort([written, None], 0)

        assert open_transactions(broker) == []
        assert values(broker, topic) == []

    def test_never_hides_the_error_that_led_to_it(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)

        query.writer().abort([None], 0)
        Query("127.0.0.1:1", topic, checkpoint=topic).writer().abort([None], 0)


class TestABatchWrite:
    def test_is_all_or_nothing_when_asked_to(self, broker: Broker, topic: str) -> None:
        tasks = [task(1, 2), task(3)]
        writer, messages = write_batch(broker.bootstrap_servers, topic, tasks, delivery="exactly-once")
        assert values(broker, topic) == []
        writer.commit(messages)
        assert values(broker, topic) == [b"1", b"2", b"3"]

        writer, messages = write_batch(broker.bootstrap_servers, topic, tasks, delivery="exactly-once")
        writer.abort(messages)
        assert values(broker, topic) == [b"1", b"2", b"3"]
        assert open_transactions(broker) == []

    def test_writes_as_it_goes_by_default(self, broker: Broker, topic: str) -> None:
        write_batch(broker.bootstrap_servers, topic, [task(1), task(2)])

        assert values(broker, topic) == [b"1", b"2"]

    def test_that_is_small_rides_in_messages(self, broker: Broker, topic: str) -> None:
        writer, messages = write_batch(broker.bootstrap_servers, topic, [task(1), task(2)], delivery="small")
        assert values(broker, topic) == []

        writer.commit(messages)

        assert values(broker, topic) == [b"1", b"2"]


class TestSmallOutputs:
    def test_are_written_by_the_driver_wherever_their_keys_belong(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic, delivery="small", columns=("key", "value"))
        tasks = [rows_of(key=["a", "b"], value=[b"1", b"2"]), rows_of(key=["a", "b"], value=[b"3", b"4"])]
        query.commit(query.write(query.plan(), 0, tasks, attempt=2), 0)

        again = Query(
            broker.bootstrap_servers,
            topic,
            checkpoint=topic,
            delivery="small",
            columns=("key", "value"),
            run_id="run-2",
        )
        again.run(0, list(reversed(tasks)))

        by_key: dict[bytes, list[bytes]] = {}
        for message in read_messages(broker.bootstrap_servers, topic):
            by_key.setdefault(present(message.key()), []).append(present(message.value()))
        assert by_key == {b"a": [b"1", b"3"], b"b": [b"2", b"4"]}


class TestWorkers:
    def test_keep_their_connections_from_batch_to_batch(self, broker: Broker, topic: str) -> None:
        query = Query(broker.bootstrap_servers, topic, checkpoint=topic)
        query.run(0, [task(1), task(2)])
        kept = list(clients.PRODUCERS._clients.values()), list(CLUSTERS._clients.values())
        query.run(1, [task(3), task(4)])

        assert kept == (list(clients.PRODUCERS._clients.values()), list(CLUSTERS._clients.values()))
        assert [len(each) for each in kept] == [1, 1]

    def test_find_a_broker_again_that_was_killed_and_restarted(self) -> None:
        with Broker(process=True) as broker:
            broker.create_topic("out", 2)
            query = Query(broker.bootstrap_servers, "out", checkpoint="c")
            query.run(0, [task(1), task(2)])
            planned = query.plan()
            first = query.run_task(planned, 1, 0, task(3))
            broker.kill()
            broker.start()
            second = query.run_task(planned, 1, 1, task(4))
            broker.kill()
            broker.start()

            query.commit([first, second], 1)

            assert values(broker, "out") == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("all_tasks_wrote", [True, False])
def test_a_batch_that_outlives_its_transaction_fails_with_the_setting_and_is_repeated_once(
    all_tasks_wrote: bool,
) -> None:
    """The brokers abort it between two tasks, or between the last task and the commit."""
    quick = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50}
    with Broker(quick, process=True) as broker:
        broker.create_topic("out", 2)
        query = Query(broker.bootstrap_servers, "out", checkpoint="c", kafka__transaction__timeout__ms="300")

        def outlive() -> None:
            planned = query.plan()
            messages = query.write(planned, 0, [task(1), task(2)] if all_tasks_wrote else [task(1)])
            wait_for_abort(broker)
            if not all_tasks_wrote:
                messages.append(query.run_task(planned, 0, 1, task(2)))
            query.commit(messages, 0)

        # On a busy machine the first task may be too late itself.
        with pytest.raises(SinkError, match=r"kafka.transaction.timeout.ms is 300. Set it higher"):
            outlive()
        assert values(broker, "out") == []

        again = Query(broker.bootstrap_servers, "out", checkpoint="c", run_id="run-2")
        again.run(0, [task(1), task(2)])
        third = Query(broker.bootstrap_servers, "out", checkpoint="c", run_id="run-3")
        third.run(0, [task(1), task(2)])
        assert values(broker, "out") == [b"1", b"2"]


def open_transactions(broker: Broker) -> list[str]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return [each.transactional_id for each in admin.list_transactions() if each.state == "Ongoing"]


def wait_for_abort(broker: Broker) -> None:
    """Until the coordinator has aborted the transaction that was open."""
    deadline = time.monotonic() + 60
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        while [each.state for each in admin.list_transactions()] != ["CompleteAbort"]:
            assert time.monotonic() < deadline, "the broker did not abort it"
            time.sleep(0.02)
