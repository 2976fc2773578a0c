"""Decides what to do with a batch after its response. Pure: no clock, no sockets.

The sender calls it once per batch and response, and carries out the decision.
"""

from enum import Enum

from tidelog.client.aio.producer.batch import ProducerBatch
from tidelog.client.aio.producer.sequences import PartitionSequences, SequenceTracker
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.reactions import reaction_to
from tidelog.wire.errors import ErrorCode


class Verdict(Enum):
    """What to do with a batch."""

    STORED = "stored"
    RETRY = "retry"
    DIVIDE = "divide"
    FAIL = "fail"


def judge(
    batch: ProducerBatch,
    code: int,
    log_start_offset: int,
    *,
    settings: ProducerSettings,
    now_ms: int,
    sequence_tracker: SequenceTracker | None,
    sequences: PartitionSequences | None,
) -> Verdict:
    """The decision about `batch`, for which a broker returned `code`; a lost connection counts as NETWORK_EXCEPTION."""
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        # A duplicate so old that the broker forgot its offset is stored all the same.
        return Verdict.STORED
    if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE) and batch.count > 1:
        return Verdict.DIVIDE
    is_out_of_time = now_ms - batch.created_ms >= settings.delivery_timeout_ms
    if is_out_of_time or batch.attempts >= settings.retries:
        return Verdict.FAIL
    may_retry = None
    if sequence_tracker is not None and sequences is not None:
        may_retry = sequence_tracker.may_retry(sequences, batch, code, log_start_offset)
    if may_retry is None:
        may_retry = reaction_to(code).is_retriable
    return Verdict.RETRY if may_retry else Verdict.FAIL
