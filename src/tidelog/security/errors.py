"""How an authentication can fail.

SaslError
├── SaslRejected      the credentials are wrong; `reason` is what the peer may know
└── SaslMalformed     the peer's message is not of the mechanism
"""

from __future__ import annotations

from typing import Final

OTHER_AUTHORIZATION_ID: Final = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class SaslError(Exception):
    """Authentication has failed. The text names no secret and may be sent to the peer."""

    @property
    def reason(self) -> str:
        return str(self)


class SaslRejected(SaslError):  # noqa: N818 - what happened
    """Credentials that are not accepted."""


class SaslMalformed(SaslError):  # noqa: N818 - what happened
    """A message that is not one of its mechanism."""
