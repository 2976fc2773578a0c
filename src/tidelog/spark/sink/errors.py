"""The errors of the sink: messages that name the cause and the setting to change."""

from typing import Final

from tidelog.client.errors import ClientError, DeadlinePassed
from tidelog.spark.sentences import ForeseenError
from tidelog.wire.errors import ApiError, ErrorCode

_FENCED: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)

PLACE_ROWS: Final = (
    "Use tidelog.spark.place_rows(df, ...) before the sink, so that all rows of a partition are in one task, "
    "or set delivery=at-least-once"
)
_ONE_ATTEMPT: Final = (
    "The batch fails; the next start of the query repeats the whole batch. "
    "Set spark.speculation=false; with spark.task.maxFailures=1 Spark does not retry tasks in vain. "
    "delivery=small and delivery=at-least-once allow repeated tasks"
)


class SinkError(ForeseenError, RuntimeError):
    """The sink failed; the text names the reason and the setting to change."""


def attempt_refused(attempt: int, partition_id: int) -> SinkError:
    """For a task that runs for another time: its first attempt may have written to the same transaction."""
    return SinkError(
        f"task {partition_id} runs for the {attempt + 1}. time, and an earlier attempt may have written a part of its "
        f"rows into the transaction of this batch. {_ONE_ATTEMPT}"
    )


class PartitionTaken(SinkError):  # noqa: N818 - says what is wrong
    """Two tasks write to one partition."""


def partition_taken(topic: str, partition: int, by: str) -> PartitionTaken:
    """For a partition with two writers."""
    return PartitionTaken(
        f"partition {partition} of topic {topic!r} is written by {by}, but only one task may write to a partition "
        f"within a transaction. {PLACE_ROWS}"
    )


def checkpoint_is_another(batch_id: int, last_batch_id: int, state_topic: str) -> SinkError:
    """For a batch whose number was committed, with other rows."""
    return SinkError(
        f"batch {batch_id} cannot be written: this query has already written its batches up to {last_batch_id}, from "
        "another checkpoint: this one was restored from a backup or copied, or the transactionalId was changed "
        "after a crash. Rows would be lost or duplicated, so nothing was written. Use the newest checkpoint (and "
        f"its transactionalId); or start with an empty one; or, to write anyway, set the option stateTopic "
        f"to another name than {state_topic!r}"
    )


def rows_are_others(batch_id: int, before: str, now: str, state_topic: str) -> SinkError:
    """For a batch whose number was committed, if only its rows show whether it is the same batch."""
    return SinkError(
        f"batch {batch_id} cannot be written: this query has already written a batch {batch_id} with other rows "
        f"(count and hash were {before} and are {now}). Either the checkpoint was restored from a backup or copied, "
        "and skipping the batch would lose rows; or Spark repeats the batch after a crash, and a function of the query "
        "returns something else each time. Nothing was written. If the checkpoint was restored: use the newest "
        "one, or start with an empty one, or write anyway by setting the option stateTopic to another name than "
        f"{state_topic!r}. If it is a repeated batch: start once with the option onRepeatedBatch=skip. The offsets of "
        "the batch could not be compared, because the checkpoint is not on a local disk"
    )


def state_is_lost(batch_id: int, state_topic: str) -> SinkError:
    """For a query of which neither the state topic nor the checkpoint knows which batches were written."""
    return SinkError(
        f"whether batch {batch_id} was written before cannot be known: stateTopic {state_topic!r} has no batch of this "
        f"query, and the checkpoint has no note that batch {batch_id - 1} was done. One of them was deleted with the "
        "other. Nothing was written. Restore one of them; or start with an empty checkpoint and startingOffsets behind "
        f"what the output has; or, to write the batch anyway, create the empty file commits/{batch_id - 1} in the "
        "checkpoint"
    )


def explained(error: Exception, transactional_id: str, timeout_ms: int, open_ms: int) -> Exception:
    """`error` in terms of Spark, if it has some; `open_ms` is how long the transaction has been open."""
    code = _code_of(error)
    if code in _FENCED:
        return SinkError(_fenced(transactional_id, timeout_ms, open_ms) + f" The broker said {code.name}")
    if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return SinkError(
            "a partition has records that this task did not write, so another task writes to it in the same "
            f"transaction ({error}). {PLACE_ROWS}"
        )
    if code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        return SinkError(
            f"option 'kafka.transaction.timeout.ms' is {timeout_ms}, and the brokers reject it: "
            "set at most their transaction.max.timeout.ms"
        )
    if code is ErrorCode.CONCURRENT_TRANSACTIONS or isinstance(error, DeadlinePassed):
        return SinkError(f"transactional id {transactional_id!r}: {error}")
    return error


def _fenced(transactional_id: str, timeout_ms: int, open_ms: int) -> str:
    if open_ms >= timeout_ms:
        return (
            f"the brokers aborted the transaction of this batch: it was open for {open_ms} ms, and "
            f"kafka.transaction.timeout.ms is {timeout_ms}. Set it higher (the brokers allow their "
            "transaction.max.timeout.ms), or make batches smaller (maxOffsetsPerTrigger). The next start repeats this "
            "batch as it was planned. To have it planned smaller, delete its file, the last one in the directory "
            "'offsets' of the checkpoint, before: nothing of the batch was committed."
        )
    return (
        "the transaction of this batch was ended or fenced. If another task of the batch has failed, that task ended "
        "it, and its error says why; often rows of one partition are in two tasks, and place_rows is missing. If none "
        f"has, another run has taken over the transactional id {transactional_id!r}: either a second driver runs on "
        "the same checkpoint and one of them must be stopped, or two queries share the option transactionalId and each "
        "needs its own."
    )


def _code_of(error: BaseException | None) -> ErrorCode | None:
    """The broker's answer at the bottom of `error`."""
    while error is not None:
        if isinstance(error, ApiError):
            return error.code
        error = error.__cause__ if isinstance(error, ClientError) else None
    return None
