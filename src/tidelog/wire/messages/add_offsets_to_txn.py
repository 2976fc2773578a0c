"""AddOffsetsToTxn: the offsets of a consumer group join a transaction.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   a fenced producer gets PRODUCER_FENCED
    3   first flexible version
    4   errors that only abort the transaction are returned as TRANSACTION_ABORTABLE (KIP-890)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), flexible_from=3):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message, api_key=ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 4), flexible_from=3):
    throttle_time_ms: int = int32()
    error_code: int = int16()
