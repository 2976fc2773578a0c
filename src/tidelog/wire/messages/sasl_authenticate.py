"""SaslAuthenticate: one step of the SASL exchange that SaslHandshake v1 has begun.

What the versions changed:

    1   adds the lifetime after which the connection must authenticate again (KIP-368)
    2   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, blob, int16, int64, string


class SaslAuthenticateRequest(Message, api_key=ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible_from=2):
    auth_bytes: bytes = blob()


class SaslAuthenticateResponse(Message, api_key=ApiKey.SASL_AUTHENTICATE, versions=(0, 2), flexible_from=2):
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    auth_bytes: bytes = blob()
    session_lifetime_ms: int = int64(since=1)  # 0 for no limit
