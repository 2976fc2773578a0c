"""EndTxn: commit or abort a transaction; the response waits for the decision's commit and, briefly, for the markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._transactions import code_of, error_for_version
from tidelog.coordination import ProducerEpoch
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_FENCED_SINCE: Final = 2


def handle(request: EndTxnRequest, context: Context) -> EndTxnResponse:
    """Until all markers are written, the next transaction gets CONCURRENT_TRANSACTIONS."""
    name = request.transactional_id
    context.check_allowed(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name)
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    return context.node.transactions.call(
        "end",
        name,
        lambda shard, now_ms: shard.end(name, producer, request.committed, now_ms),
        lambda outcome: EndTxnResponse(
            error_code=error_for_version(code_of(outcome), context.api_version, _FENCED_SINCE)
        ),
    )
