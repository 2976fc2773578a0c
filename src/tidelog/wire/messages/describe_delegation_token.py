"""DescribeDelegationToken: the delegation tokens of owners; null asks for all.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
    3   adds the requester (KIP-373)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, blob, int16, int32, int64, string


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(
    Message, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(0, 3), flexible_from=2
):
    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, null_since=0)


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string(since=3)
    token_requester_principal_name: str = string(since=3)
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = blob()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(
    Message, api_key=ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(0, 3), flexible_from=2
):
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
