"""What a client raises.

ClientError
├── ApiError                 a broker returned an error; `code` is its error code
├── BrokerUnavailable        no broker answers at that address
│   ├── BootstrapFailed      none of bootstrap.servers ever answered
│   └── ConnectionLost       a broker answered, then the connection ended: the outcome of open requests is unknown
├── AuthenticationFailed     a certificate or a password was rejected, on either side: no retry can help
├── UnsupportedByBroker      the broker does not serve this API, or no version of it that we speak
├── InvalidReply             the received bytes are not a Kafka reply
├── ClientConfigError        a client setting or address that cannot be used
├── ClientClosed             the client was closed before, or while, this was asked of it
├── DeadlinePassed           it did not happen within the time that the settings or the caller gave it
│   ├── BufferExhausted      buffer.memory stayed full for max.block.ms
│   └── DeliveryPending      the outcome of a send is not known yet; a TimeoutError, too
├── RecordTooLarge           one record exceeds max.request.size or buffer.memory
├── SerializationFailed      a serializer refused a key or a value
├── IllegalState             a call that the state of this client does not allow, such as commit without begin
└── TransactionFailed        the open transaction cannot be committed; abort it and go on
    └── ProducerFenced       nor can it be aborted: another producer has taken over. Close this one

`retriable` means that the same call may succeed later; `fatal` that this client can only be closed.
"""

# ruff: noqa: N818 - most of these names say what happened, and read better in an `except` without a suffix

from collections.abc import Mapping
from typing import Any, Final

from tidelog.wire import errors as wire
from tidelog.wire.errors import ErrorCode

_FATAL: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
)


class ClientError(Exception):
    """Base of all errors of clients, except invalid arguments (`ValueError`)."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are pickled as a call with `args`, which is the message here and not what __init__ takes.
        return _restored, (type(self), self.args, self.__dict__)

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed later."""
        return False

    @property
    def fatal(self) -> bool:
        """Whether this client can only be closed."""
        return False


def _restored(kind: type[ClientError], args: tuple[Any, ...], state: dict[str, Any]) -> ClientError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class ApiError(ClientError, wire.ApiError):
    """A broker returned an error: `code` is the error code of the protocol, `message` the text that came with it."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        wire.ApiError.__init__(self, code, message)

    @property
    def retriable(self) -> bool:
        """Whether Kafka calls the code retriable."""
        return self.code.retriable

    @property
    def fatal(self) -> bool:
        """Whether the cluster has fenced this client."""
        return self.code in _FATAL


class BrokerUnavailable(ClientError):
    """No broker could be reached; `address` is where it was looked for."""

    def __init__(self, address: str, reason: str, advice: str = "") -> None:
        super().__init__(f"no broker at {address}: {reason}" + (f" ({advice})" if advice else ""))
        self.address = address
        self.reason = reason

    @property
    def retriable(self) -> bool:
        """A broker may come back."""
        return True


class BootstrapFailed(BrokerUnavailable):
    """No broker was ever reached; `failures` has the reason for each address that was tried."""

    def __init__(self, failures: Mapping[str, str], timeout_ms: int) -> None:
        tried = "; ".join(f"{address}: {reason}" for address, reason in failures.items())
        ClientError.__init__(
            self, f"no broker at {tried} (check bootstrap.servers; gave up after bootstrap.timeout.ms={timeout_ms})"
        )
        self.address = ",".join(failures)
        self.reason = "none of these answers"
        self.failures = dict(failures)


class ConnectionLost(BrokerUnavailable):
    """The connection ended, or ran out of time, while a reply was due."""

    def __init__(self, address: str, reason: str) -> None:
        ClientError.__init__(self, f"connection to {address} lost: {reason}")
        self.address = address
        self.reason = reason


class AuthenticationFailed(ClientError):
    """The broker rejected this client's credentials, or this client the broker's certificate."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"authentication with the broker at {address} failed: {reason}")
        self.address = address
        self.reason = reason

    @property
    def fatal(self) -> bool:
        """The same credentials are rejected again."""
        return True


class UnsupportedByBroker(ClientError):
    """The broker does not offer what was asked."""


class InvalidReply(ClientError):
    """The peer's bytes make no sense as a Kafka reply: probably not a broker, or a TLS or web port."""


class ClientConfigError(ClientError):
    """A client setting that cannot be used; the message names the setting and its value."""


class ClientClosed(ClientError):
    """The client is closed, or was closed while the caller waited."""


class DeadlinePassed(ClientError):
    """It did not happen in time; the message names the time and what was waited for."""

    @property
    def retriable(self) -> bool:
        """More time may be enough."""
        return True


class BufferExhausted(DeadlinePassed):
    """No room for a record: brokers take records more slowly than they are sent, or not at all."""


class DeliveryPending(DeadlinePassed, TimeoutError):
    """A record or a table is still under way after the time that `result` or `exception` was given."""


class RecordTooLarge(ClientError):
    """A record that could never be sent with these settings."""


class SerializationFailed(ClientError):
    """A key or value is not what its serializer expects."""


class IllegalState(ClientError):
    """The call does not fit what was called before."""


class TransactionFailed(ClientError):
    """The transaction cannot be committed. After `abort` the producer can begin another."""


class ProducerFenced(TransactionFailed):
    """Another producer has the transactional id now, or this one may no longer use it: it can only be closed."""

    @property
    def fatal(self) -> bool:
        """Always."""
        return True
