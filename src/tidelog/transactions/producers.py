"""Which producer gets a transactional id: the rules of InitProducerId.

A producer that starts sends only its transactional id, and fences the producer before it. One that continues after an
error sends its producer id and epoch (KIP-360) and gets the next epoch, unless it was fenced itself.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.coordination import ProducerEpoch
from tidelog.records.header import NO_PRODUCER_EPOCH
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import EPOCH_BUMPS_FROM, Transaction, is_exhausted
from tidelog.wire.errors import ApiError, ErrorCode

NewProducerId = Callable[[], int]
"""Allocates an unused producer id; may raise ApiError."""


def initialize(
    current: Transaction | None,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerEpoch | None,
    new_producer_id: NewProducerId,
    now_ms: int,
    level: int = 0,
) -> Transaction:
    """The transaction state after InitProducerId; raises ApiError when the producer may not have the transactional id.

    An open transaction is aborted first, under the next epoch; the producer then has to retry. `level` is the one of
    transaction.version that is in effect.
    """
    if current is None:
        # The state may have expired, so a producer that sends an id is treated like a new one.
        return Transaction(transactional_id, new_producer_id(), 0, timeout_ms, updated_ms=now_ms)
    if expected is not None and not _may_be_its_producer(current, expected):
        raise _fenced(current, expected)
    if current.state.is_prepared:
        raise ApiError(
            ErrorCode.CONCURRENT_TRANSACTIONS, f"the last transaction of {transactional_id} is still completing"
        )
    if current.state is TransactionState.ONGOING:
        return fenced_and_aborted(current, new_producer_id, now_ms, level)
    if is_exhausted(current.producer_epoch) and (expected is None or expected.producer_epoch == current.producer_epoch):
        last_epoch = NO_PRODUCER_EPOCH if expected is None else current.producer_epoch
        return current.initialized(ProducerEpoch(new_producer_id(), 0), last_epoch, timeout_ms, now_ms)
    producer_epoch, last_epoch = _next_epoch(current, expected)
    return current.initialized(ProducerEpoch(current.producer_id, producer_epoch), last_epoch, timeout_ms, now_ms)


def fenced_and_aborted(current: Transaction, new_producer_id: NewProducerId, now_ms: int, level: int) -> Transaction:
    """The open transaction is aborted without its producer, whose epoch is too old from now on.

    In protocol version 2 that is as if the producer had aborted it: if nothing else happens meanwhile, its next EndTxn
    or InitProducerId tells it the epoch to go on with.
    """
    if level >= EPOCH_BUMPS_FROM:
        return current.ended_with_bump(False, new_producer_id, now_ms)
    return current.fenced().ended(False, now_ms)


def _may_be_its_producer(current: Transaction, expected: ProducerEpoch) -> bool:
    """Whether it has the producer id, or had the previous one and missed the response when its epochs ran out."""
    return expected.producer_id == current.producer_id or (
        expected.producer_id == current.last_producer_id and is_exhausted(expected.producer_epoch)
    )


def _next_epoch(current: Transaction, expected: ProducerEpoch | None) -> tuple[int, int]:
    """The next epoch, and the last epoch to keep so that its producer may retry."""
    if expected is None:
        return current.producer_epoch + 1, NO_PRODUCER_EPOCH
    if expected.producer_epoch == current.producer_epoch:
        return current.producer_epoch + 1, current.producer_epoch
    if expected.producer_epoch == current.last_producer_epoch:
        # A retry: the producer missed the response. Another producer would have reset the last epoch, so it is safe.
        return current.producer_epoch, current.last_producer_epoch
    raise _fenced(current, expected)


def _fenced(current: Transaction, expected: ProducerEpoch) -> ApiError:
    return ApiError(
        ErrorCode.PRODUCER_FENCED,
        f"producer id {expected.producer_id} with epoch {expected.producer_epoch} is fenced: "
        f"{current.transactional_id} belongs to producer id {current.producer_id} with epoch {current.producer_epoch}",
    )
