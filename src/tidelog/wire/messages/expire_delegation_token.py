"""ExpireDelegationToken: set when a delegation token expires, at once if the period is negative.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, blob, int16, int32, int64


class ExpireDelegationTokenRequest(Message, api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(0, 2), flexible_from=2):
    hmac: bytes = blob()
    expiry_time_period_ms: int = int64()


class ExpireDelegationTokenResponse(Message, api_key=ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(0, 2), flexible_from=2):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()
