"""ListTransactions: the transactions that this broker coordinates (KIP-664).

What the versions changed:

    1   adds a filter by duration (KIP-994)
    2   adds a pattern for transactional ids (KIP-1152)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Message, api_key=ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible_from=0):
    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64(-1, since=1)  # milliseconds; -1 for any
    transactional_id_pattern: str | None = string(None, since=2, null_since=2)


class TransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Message, api_key=ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
