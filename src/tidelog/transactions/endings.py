"""How EndTxn is answered: the rules of the two versions of the transaction protocol.

Before version 2 (KIP-890) the producer keeps its epoch: a repeated EndTxn looks like the next one, and only the state
tells them apart. In version 2 every end bumps the epoch: a repeated EndTxn has the epoch before the current one, and
the producer may abort without knowing whether a transaction is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from tidelog.coordination import ProducerEpoch
from tidelog.transactions.producers import NewProducerId
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import EPOCH_BUMPS_FROM, EPOCH_MAX, Transaction
from tidelog.wire.errors import ApiError, ErrorCode

_S = TransactionState


class _Ending(Enum):
    """What follows from an EndTxn of the right producer."""

    DECIDE = auto()
    REPEAT = auto()
    """It was asked before, and is done: the same response again."""
    WAIT = auto()
    """It was asked before, and markers are missing."""


_ENDINGS: Final[Mapping[tuple[TransactionState, bool], _Ending]] = {
    (_S.ONGOING, True): _Ending.DECIDE,
    (_S.ONGOING, False): _Ending.DECIDE,
    (_S.COMPLETE_COMMIT, True): _Ending.REPEAT,
    (_S.COMPLETE_ABORT, False): _Ending.REPEAT,
    (_S.PREPARE_COMMIT, True): _Ending.WAIT,
    (_S.PREPARE_ABORT, False): _Ending.WAIT,
}
"""By state, and whether it is a commit. Anything else is INVALID_TXN_STATE."""

_FIRST_ENDINGS: Final = {
    (_S.ONGOING, True): _Ending.DECIDE,
    (_S.ONGOING, False): _Ending.DECIDE,
    (_S.EMPTY, False): _Ending.DECIDE,
    (_S.COMPLETE_COMMIT, False): _Ending.DECIDE,
    (_S.COMPLETE_ABORT, False): _Ending.DECIDE,
    # The producer has its next epoch already, and the markers of its last one are still being written.
    **{
        (state, is_commit): _Ending.WAIT
        for state in (_S.PREPARE_COMMIT, _S.PREPARE_ABORT)
        for is_commit in (True, False)
    },
}
"""The same in protocol version 2, for an EndTxn with the current epoch."""

_REPEATED_ENDINGS: Final = {key: ending for key, ending in _ENDINGS.items() if ending is not _Ending.DECIDE}
"""The same in protocol version 2, for an EndTxn with the epoch before the current one."""


def end(
    transactional_id: str,
    current: Transaction | None,
    producer: ProducerEpoch,
    is_commit: bool,
    new_producer_id: NewProducerId,
    now_ms: int,
    protocol: int,
) -> Transaction | None:
    """The transaction with its outcome decided; None if it was decided and carried out before.

    Raises ApiError if `producer` may not end it, or not so.
    """
    bumps_epoch = protocol >= EPOCH_BUMPS_FROM
    is_repeated = bumps_epoch and current is not None and _is_repeated(current, producer)
    if current is None or not is_repeated:
        current = check_producer(transactional_id, current, producer)
    endings = _ENDINGS if not bumps_epoch else _REPEATED_ENDINGS if is_repeated else _FIRST_ENDINGS
    ending = endings.get((current.state, is_commit))
    if ending is _Ending.DECIDE:
        return (
            current.ended_with_bump(is_commit, new_producer_id, now_ms)
            if bumps_epoch
            else current.ended(is_commit, now_ms)
        )
    if ending is _Ending.REPEAT:
        return None
    outcome = "committed" if is_commit else "aborted"
    code = ErrorCode.CONCURRENT_TRANSACTIONS if ending is _Ending.WAIT else ErrorCode.INVALID_TXN_STATE
    raise ApiError(code, f"{current.transactional_id} is {current.state.value} and cannot be {outcome}")


def _is_repeated(current: Transaction, producer: ProducerEpoch) -> bool:
    """Whether the end of `current` was asked for with these, and bumped the epoch.

    An end by the older protocol bumped none: there an epoch less than the current one is that of a producer that was
    replaced, whose transaction was aborted, whatever became of its successor's. Kafka 4.3 does not tell these apart.
    """
    if current.protocol < EPOCH_BUMPS_FROM or current.state in (_S.ONGOING, _S.EMPTY):
        return False
    if current.producer_epoch == 0 and not current.state.is_prepared:
        return producer == (current.last_producer_id, EPOCH_MAX - 1)
    return producer == (current.producer_id, current.producer_epoch - 1)


def check_producer(transactional_id: str, current: Transaction | None, producer: ProducerEpoch) -> Transaction:
    """The state of the transactional id; raises ApiError unless it belongs to this producer."""
    if current is not None and current.state.is_prepared and producer == current.following_producer:
        return current
    if current is None or current.producer_id != producer.producer_id:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"transactional id {transactional_id} does not belong to producer id {producer.producer_id}",
        )
    if current.producer_epoch != producer.producer_epoch:
        raise ApiError(
            ErrorCode.PRODUCER_FENCED,
            f"epoch {producer.producer_epoch} of {transactional_id} is not the current epoch {current.producer_epoch}",
        )
    return current
