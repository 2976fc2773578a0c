"""EndTxn: commit or abort a transaction.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   a fenced producer gets PRODUCER_FENCED
    3   first flexible version
    4   errors that only abort the transaction are returned as TRANSACTION_ABORTABLE (KIP-890)
    5   the epoch is bumped, and the response has what the producer goes on with (KIP-890)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, api_key=ApiKey.END_TXN, versions=(0, 5), flexible_from=3):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()  # false to abort


class EndTxnResponse(Message, api_key=ApiKey.END_TXN, versions=(0, 5), flexible_from=3):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(-1, since=5)
    producer_epoch: int = int16(-1, since=5)
