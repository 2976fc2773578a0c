"""Envelope: a broker hands a client's request on to the active controller, in the client's name (KIP-590).

What is inside is a whole request, header and body, and comes back as a whole response.
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, blob, int16


class EnvelopeRequest(Message, api_key=ApiKey.ENVELOPE, versions=(0, 0), flexible_from=0):
    request_data: bytes = blob()
    request_principal: bytes | None = blob(None, null_since=0)
    client_host_address: bytes = blob()


class EnvelopeResponse(Message, api_key=ApiKey.ENVELOPE, versions=(0, 0), flexible_from=0):
    response_data: bytes | None = blob(None, null_since=0)
    error_code: int = int16()
