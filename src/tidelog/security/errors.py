"""How an authentication can fail.

SaslError
├── SaslRejected      the credentials are wrong; `reason` is what the peer may know
│   └── TokenRejected a bearer token is not valid
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


class TokenRejected(SaslRejected):
    """A bearer token that is not valid. The text is for the log; the peer learns a status of RFC 6750 only."""

    def __init__(self, text: str, *, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.scope = scope

    @property
    def reason(self) -> str:
        scope = "" if self.scope is None else f', "scope":"{self.scope}"'
        return f'{{"status":"{self.status}"{scope}}}'


class SaslMalformed(SaslError):  # noqa: N818 - what happened
    """A message that is not one of its mechanism."""
