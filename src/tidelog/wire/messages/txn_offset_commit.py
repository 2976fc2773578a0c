"""TxnOffsetCommit: store the offsets of a consumer group as part of a transaction.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   adds leader epochs (KIP-320)
    3   first flexible version; adds the member and its generation, which are checked (KIP-447)
    4   errors that only abort the transaction are returned as TRANSACTION_ABORTABLE (KIP-890)
    5   the broker adds the group's partition to the transaction (KIP-890)
    6   topic ids instead of names, and groups that do not exist as an error (KIP-1319)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string, uuid


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(-1, since=2)
    committed_metadata: str | None = string(null_since=0)


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string(until=5)
    topic_id: bytes = uuid(since=6)
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Message, api_key=ApiKey.TXN_OFFSET_COMMIT, versions=(0, 6), flexible_from=3):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32(-1, since=3)
    member_id: str = string(since=3)
    group_instance_id: str | None = string(None, since=3, null_since=3)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string(until=5)
    topic_id: bytes = uuid(since=6)
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Message, api_key=ApiKey.TXN_OFFSET_COMMIT, versions=(0, 6), flexible_from=3):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
