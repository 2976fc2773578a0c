"""What a broker knows about the client of a connection; the basis for authorization and quotas.

A session begins with the connection and ends with it. On a listener without authentication the client is anonymous from
the start, as in Kafka.
"""

from __future__ import annotations

from typing import Final

USER: Final = "User:"
"""The type of principals that Kafka makes itself."""
ANONYMOUS: Final = USER + "ANONYMOUS"


class Session:
    """A client: its principal, address and listener."""

    __slots__ = (
        "address",
        "client_id",
        "client_software",
        "has_token",
        "is_authenticated",
        "listener",
        "principal",
        "security_protocol",
    )

    def __init__(self, listener: str, security_protocol: str, address: str) -> None:
        self.listener = listener
        """Its name. Metadata responses have the addresses of this listener."""
        self.security_protocol = security_protocol
        self.address = address
        """The host, without the port."""
        self.principal = ANONYMOUS
        """Kafka's form: a type and a name."""
        self.is_authenticated = True
        """False on a listener with authentication, until the client has authenticated itself."""
        self.has_token = False
        """Whether the client authenticated with a delegation token."""
        self.client_id: str | None = None
        """The client id of the last request that was decoded into a message. Clients rarely change it."""
        self.client_software: tuple[str, str] | None = None
        """Name and version, if the client has said so (ApiVersions 3 and newer)."""
