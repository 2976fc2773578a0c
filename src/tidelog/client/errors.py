"""What can go wrong around a request, as opposed to what a broker answers (that is `tidelog.wire.errors.ApiError`).

ClientError
├── BrokerUnavailable        nobody answers at that address
│   └── ConnectionLost       somebody did, and then the connection ended: the fate of open requests is unknown
├── UnsupportedByBroker      the broker does not serve this API, or no version of it that we speak
├── InvalidReply             bytes came back that are no Kafka reply
└── ClientConfigError        a client setting or address that cannot be used
"""

# ruff: noqa: N818 - most of these names say what happened, and read better in an `except` without a suffix


class ClientError(Exception):
    """Base of everything this room raises by itself."""


class BrokerUnavailable(ClientError):
    """No broker could be reached; `address` is where it was looked for."""

    def __init__(self, address: str, reason: str, advice: str = "") -> None:
        super().__init__(f"no broker at {address}: {reason}" + (f" ({advice})" if advice else ""))
        self.address = address
        self.reason = reason


class ConnectionLost(BrokerUnavailable):
    """The connection ended, or ran out of time, while a reply was due."""

    def __init__(self, address: str, reason: str) -> None:
        ClientError.__init__(self, f"connection to {address} lost: {reason}")
        self.address = address
        self.reason = reason


class UnsupportedByBroker(ClientError):
    """The broker does not offer what was asked."""


class InvalidReply(ClientError):
    """The peer's bytes make no sense as a Kafka reply: probably not a broker, or a TLS or web port."""


class ClientConfigError(ClientError):
    """A client setting that cannot be used; the message names the setting and its value."""
