"""Parts of a batch are committed together or not at all; the driver checks that they fit."""

import pytest

from tidelog.client.aio.producer.transaction_state import TransactionHandle
from tidelog.client.types import TopicPartition
from tidelog.spark.sink.errors import SinkError
from tidelog.spark.sink.messages import TaskFacts, Written, check_parts, transaction_of
from tidelog.spark.sink.transaction import OpenTransaction

TRANSACTION = OpenTransaction(TransactionHandle("id", 7, 3), 60_000, 0)


def part(task: int, *partitions: int, batch_id: int | None = 5, epoch: int = 3, query: str | None = "q") -> Written:
    transaction = TRANSACTION._replace(handle=TransactionHandle("id", 7, epoch))
    rows = tuple((TopicPartition("out", partition), 10) for partition in partitions)
    return Written(TaskFacts(task, 0, query, batch_id, "run"), transaction, rows)


def test_parts_with_partitions_of_their_own_fit_in_the_order_of_tasks() -> None:
    parts = check_parts([part(1, 1, 3), part(0, 0, 2), part(2)], 5)

    assert [each.task.partition_id for each in parts] == [0, 1, 2]
    assert [each.row_count for each in parts] == [20, 20, 0]


def test_two_tasks_in_one_partition_are_refused_with_the_way_out() -> None:
    with pytest.raises(SinkError, match=r"partition 2 of topic 'out' is written by the tasks 0 and 1.*place_rows"):
        check_parts([part(0, 0, 2), part(1, 2)], 5)


@pytest.mark.parametrize("other", [part(1, 1, epoch=4), part(1, 1, query="other")])
def test_parts_of_different_runs_are_refused(other: Written) -> None:
    with pytest.raises(SinkError, match="tasks of different runs"):
        check_parts([part(0, 0), other], 5)


def test_parts_of_another_batch_are_refused() -> None:
    with pytest.raises(SinkError, match="tasks wrote batch 4, but Spark commits batch 5"):
        check_parts([part(0, batch_id=4)], 5)


@pytest.mark.parametrize("nameless", [part(0, query=None), part(0, batch_id=None)])
def test_a_stream_whose_tasks_do_not_know_their_batch_is_refused(nameless: Written) -> None:
    """Rather than to forget which batch it was, and to write it again after a crash."""
    with pytest.raises(SinkError, match="could not be recognised"):
        check_parts([nameless], 5)


def test_a_task_that_sent_no_message_is_missed() -> None:
    with pytest.raises(SinkError, match="1 of 2 tasks did not report"):
        check_parts([part(0), None], 5)


def test_a_batch_write_has_no_number() -> None:
    assert check_parts([part(0, batch_id=None)], None)


def test_the_transaction_is_known_from_any_task_that_finished() -> None:
    assert transaction_of([None, part(1)]) == TRANSACTION
    assert transaction_of([None, None]) is None
