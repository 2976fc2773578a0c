"""DescribeTransactions: the state of transactional ids (KIP-664)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string


class DescribeTransactionsRequest(Message, api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_from=0):
    transactional_ids: list[str] = array(string)


class TopicData(Struct):
    topic: str = string()
    partitions: list[int] = array(int32)


class TransactionState(Struct):
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


class DescribeTransactionsResponse(Message, api_key=ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_from=0):
    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
