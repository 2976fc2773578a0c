"""SaslHandshake and SaslAuthenticate on a connection that is served already: both are errors there.

A connection that has to authenticate itself is not served before it has (`tidelog.broker.security.authentication`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context


def handle_handshake(_request: SaslHandshakeRequest, _context: Context) -> SaslHandshakeResponse:
    """Refused: the listener has no SASL, or the client is authenticated."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def handle_authenticate(_request: SaslAuthenticateRequest, _context: Context) -> SaslAuthenticateResponse:
    """Refused for the same reason."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
