"""SASL mechanisms as state machines: bytes in, bytes out.

A `ServerMechanism` is made for one authentication. `respond` takes each message of the client and returns the answer;
when `user` is set, the client is who it claims to be. A `ClientMechanism` is the other side. Both raise `SaslError`.

A broker's loop must not wait: what may block is returned by `prepare`, and `respond` never blocks. A client's side may
block if its `Login` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Work = Callable[[], object]
"""What runs on a thread. Equal ones that come at the same time run once, for all who wait for them."""


def nothing_to_prepare(_mechanism: object, _message: bytes) -> Work | None:
    """The `prepare` of a mechanism that never blocks."""
    return None


class ServerMechanism(Protocol):
    """One authentication, seen by a broker."""

    @property
    def user(self) -> str | None:
        """The authenticated user's name; None until the exchange is complete."""

    @property
    def has_token(self) -> bool:
        """Whether the client authenticates with a delegation token."""

    @property
    def expires_ms(self) -> int | None:
        """When the credentials of the authenticated user expire, by the wall clock; None for never."""

    def prepare(self, message: bytes) -> Work | None:
        """Work that must be done, off the loop, before `respond` is called with this message. Raises SaslError."""

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
