"""AddOffsetsToTxn: adds the offsets partition of a group to a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.group_coordinator import OFFSETS_TOPIC
from tidelog.broker.handlers._transactions import code_of, error_for_version
from tidelog.coordination import ProducerEpoch
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_FENCED_SINCE: Final = 2


def handle(request: AddOffsetsToTxnRequest, context: Context) -> AddOffsetsToTxnResponse:
    """The group is not checked here, but by TxnOffsetCommit."""
    context.check_allowed(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.transactional_id)
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    node = context.node
    name = request.transactional_id
    producer = ProducerEpoch(request.producer_id, request.producer_epoch)
    partition = (OFFSETS_TOPIC, node.groups.partition_of(request.group_id))
    return node.transactions.call(
        "partitions",
        name,
        lambda shard, now_ms: shard.add_partitions(name, producer, (partition,), now_ms),
        lambda outcome: AddOffsetsToTxnResponse(
            error_code=error_for_version(code_of(outcome), context.api_version, _FENCED_SINCE)
        ),
    )
