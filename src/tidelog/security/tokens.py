"""Delegation tokens (KIP-48): secrets with which other clients authenticate as their owner, without its password.

A token is an id with an owner, renewers and three times; its secret is the HMAC of the id with a key that only brokers
have. Clients authenticate with SCRAM: the id is the user name, the HMAC in base64 the password, and the extension
`tokenauth=true` says so.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import Final, NamedTuple

HMAC_ALGORITHM: Final = "sha512"


class DelegationToken(NamedTuple):
    """A token as brokers know it. Principals have Kafka's form, `User:name`."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    """It cannot be renewed beyond this time."""
    expires_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return now_ms > self.expires_ms or now_ms > self.max_ms

    def may_renew(self, principal: str) -> bool:
        """Whether a principal may renew the token and let it expire."""
        return principal == self.owner or principal in self.renewers or principal == self.requester


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """The secret of a token."""
    return hmac.digest(secret_key.encode(), token_id.encode(), HMAC_ALGORITHM)


def token_password(secret_key: str, token_id: str) -> str:
    """The secret as the password of a SCRAM login."""
    return b64encode(token_hmac(secret_key, token_id)).decode()
