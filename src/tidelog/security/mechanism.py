"""SASL mechanisms as state machines: bytes in, bytes out.

A `ServerMechanism` is made for one authentication. `respond` takes each message of the client and returns the answer;
when `user` is set, the client is who it claims to be. A `ClientMechanism` is the other side. Both raise `SaslError`.
"""

from __future__ import annotations

from typing import Protocol


class ServerMechanism(Protocol):
    """One authentication, seen by a broker."""

    @property
    def user(self) -> str | None:
        """The authenticated user's name; None until the exchange is complete."""

    @property
    def has_token(self) -> bool:
        """Whether the client authenticates with a delegation token."""

    def respond(self, message: bytes) -> bytes:
        """The answer to the client's next message."""


class ClientMechanism(Protocol):
    """One authentication, seen by a client."""

    @property
    def is_complete(self) -> bool:
        """Whether both sides are satisfied. The client must not go on before that: the broker may be another."""

    def first(self) -> bytes:
        """The message that begins the exchange."""

    def respond(self, message: bytes) -> bytes | None:
        """The answer to the broker's next message; None if none is due."""
