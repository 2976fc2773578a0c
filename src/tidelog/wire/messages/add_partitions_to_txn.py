"""AddPartitionsToTxn: partitions join a transaction before the first record is written to them.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   a fenced producer gets PRODUCER_FENCED
    3   first flexible version
    4   several transactions in one request, and verification only; sent by brokers, clients stay at 3 (KIP-890)
    5   errors that only abort the transaction are returned as TRANSACTION_ABORTABLE (KIP-890)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string


class AddPartitionsToTxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array(int32)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


class AddPartitionsToTxnRequest(Message, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), flexible_from=3):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, since=4)
    v3_and_below_transactional_id: str = string(until=3)
    v3_and_below_producer_id: int = int64(until=3)
    v3_and_below_producer_epoch: int = int16(until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, until=3)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(AddPartitionsToTxnPartitionResult)


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


class AddPartitionsToTxnResponse(Message, api_key=ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), flexible_from=3):
    throttle_time_ms: int = int32()
    error_code: int = int16(since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, until=3)
