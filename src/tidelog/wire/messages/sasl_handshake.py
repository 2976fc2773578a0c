"""SaslHandshake: choose the mechanism by which a connection authenticates itself.

What the versions changed:

    0   followed by raw SASL tokens without Kafka headers
    1   followed by SaslAuthenticate requests
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, array, int16, string


class SaslHandshakeRequest(Message, api_key=ApiKey.SASL_HANDSHAKE, versions=(0, 1)):
    mechanism: str = string()


class SaslHandshakeResponse(Message, api_key=ApiKey.SASL_HANDSHAKE, versions=(0, 1)):
    error_code: int = int16()
    mechanisms: list[str] = array(string)
