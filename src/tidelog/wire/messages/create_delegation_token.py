"""CreateDelegationToken: create a secret with which other clients can authenticate as its owner (KIP-48).

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
    3   the owner may be another than the requester (KIP-373)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, blob, int16, int32, int64, string


class CreatableRenewers(Struct):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Message, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions=(0, 3), flexible_from=2):
    owner_principal_type: str | None = string(since=3, null_since=3)
    owner_principal_name: str | None = string(since=3, null_since=3)
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()  # -1 for the broker's own


class CreateDelegationTokenResponse(Message, api_key=ApiKey.CREATE_DELEGATION_TOKEN, versions=(0, 3), flexible_from=2):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3)
    token_requester_principal_name: str = string(since=3)
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = blob()
    throttle_time_ms: int = int32()
