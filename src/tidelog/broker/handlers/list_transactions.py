"""ListTransactions: the transactional ids that this broker coordinates, by state, producer id and age."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context


async def handle(request: ListTransactionsRequest, context: Context) -> ListTransactionsResponse:
    """Unknown states are returned in `unknown_state_filters`."""
    from tidelog.groups.consumer.patterns import check_pattern, matching
    from tidelog.transactions.states import TransactionState as State

    transactions = context.node.transactions.edge
    if transactions.has_loads:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    known = {state.value for state in State}
    states = set(request.state_filters)
    producer_ids = set(request.producer_id_filters)
    pattern = request.transactional_id_pattern
    if pattern:
        check_pattern(pattern)
    now_ms = context.node.clock.wall_ms()
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in dict.fromkeys(request.state_filters) if name not in known]
    )
    # Transactional ids come and go between two steps, so the list of those that are here now is made first.
    for found in [found for shard in transactions.shards() for found in shard.transactions()]:
        if (
            (not states or found.state.value in states)
            and (not producer_ids or found.producer_id in producer_ids)
            and context.is_allowed(
                AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, found.transactional_id, is_logged=False
            )
            and (not pattern or matching(pattern, (found.transactional_id,)))
            and (request.duration_filter < 0 or now_ms - found.start_ms > request.duration_filter)
        ):
            response.transaction_states.append(
                TransactionState(
                    transactional_id=found.transactional_id,
                    producer_id=found.producer_id,
                    transaction_state=found.state.value,
                )
            )
        await context.pause()
    return response
