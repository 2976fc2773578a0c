"""InitProducerId: a producer id and epoch for an idempotent or transactional producer.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
    3   the producer names the id and epoch it has, to raise its epoch (KIP-360)
    4   a fenced producer gets PRODUCER_FENCED
    5   errors that only abort the transaction are returned as TRANSACTION_ABORTABLE (KIP-890)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, int16, int32, int64, string


class InitProducerIdRequest(Message, api_key=ApiKey.INIT_PRODUCER_ID, versions=(0, 5), flexible_from=2):
    transactional_id: str | None = string(null_since=0)  # null for producers that are only idempotent
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(-1, since=3)
    producer_epoch: int = int16(-1, since=3)


class InitProducerIdResponse(Message, api_key=ApiKey.INIT_PRODUCER_ID, versions=(0, 5), flexible_from=2):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(-1)
    producer_epoch: int = int16()
