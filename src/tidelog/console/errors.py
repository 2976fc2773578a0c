"""Errors as pages in plain English: a title, what happened, what to do, and the HTTP status."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.client.aio.admin.driver import PartlyRefused
from tidelog.client.errors import (
    AuthenticationFailed,
    BootstrapFailed,
    BrokerUnavailable,
    ClientConfigError,
    ClientError,
    DeadlinePassed,
    UnsupportedByBroker,
)
from tidelog.client.schemas.registry import RegistryError, RegistryUnavailable
from tidelog.config.errors import ConfigError
from tidelog.wire.errors import ApiError, ErrorCode


class PageError(Exception):
    """An error of a request: the page to show."""

    def __init__(self, status: int, title: str, text: str, advice: str = "") -> None:
        super().__init__(text)
        self.explained = Explained(status, title, text, advice)


class Explained(NamedTuple):
    """What the error page says."""

    status: int
    title: str
    text: str
    advice: str = ""


_NOT_FOUND: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)
_NOT_ALLOWED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
_ADVICE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.SECURITY_DISABLED: "Set authorizer.class.name on the brokers to use access control.",
    ErrorCode.NON_EMPTY_GROUP: "Stop the members of the group first.",
    ErrorCode.UNKNOWN_MEMBER_ID: "Stop the members of the group first; offsets can be set only while it has none.",
    ErrorCode.TOPIC_DELETION_DISABLED: "Set delete.topic.enable=true on the brokers.",
}


def explain(error: Exception) -> Explained | None:
    """The page for an error; None if it is not one that was expected."""
    if isinstance(error, PageError):
        return error.explained
    if isinstance(error, PartlyRefused) and error.errors:
        return explain(next(iter(error.errors.values())))
    if isinstance(error, ApiError):
        return _explain_code(error)
    if isinstance(error, BootstrapFailed | BrokerUnavailable):
        return Explained(
            503,
            "The cluster cannot be reached",
            _sentence(str(error)),
            "Check that the brokers run and that --bootstrap-server names them, then load this page again.",
        )
    if isinstance(error, AuthenticationFailed):
        return Explained(401, "The cluster rejected the login", _sentence(str(error)))
    if isinstance(error, DeadlinePassed):
        return Explained(504, "The cluster did not answer in time", _sentence(str(error)), "Load this page again.")
    if isinstance(error, UnsupportedByBroker):
        return Explained(501, "The brokers do not offer this", _sentence(str(error)))
    if isinstance(error, RegistryUnavailable):
        return Explained(
            503,
            "The schema registry cannot be reached",
            _sentence(str(error)),
            "Check --schema-registry, then try again.",
        )
    if isinstance(error, RegistryError):
        if error.is_not_found:
            return Explained(404, "It does not exist", _sentence(error.reason))
        status = error.status if 400 <= error.status < 500 else 502
        return Explained(status, "The schema registry refused the request", _sentence(error.reason))
    if isinstance(error, ClientConfigError | ConfigError):
        return Explained(500, "A client setting cannot be used", _sentence(str(error)), "Check --command-config.")
    if isinstance(error, ClientError):
        return Explained(502, "The cluster refused the request", _sentence(str(error)))
    return None


def _explain_code(error: ApiError) -> Explained:
    text = _sentence(f"{error.message or error.code.text} ({error.code.name})")
    if error.code in _NOT_FOUND:
        return Explained(404, "It does not exist", text)
    if error.code in _NOT_ALLOWED:
        return Explained(
            403, "You may not do this", text, "An access control entry must allow it; see Access for the entries."
        )
    status = 409 if error.code in _ADVICE else 502
    return Explained(status, "The cluster refused the request", text, _ADVICE.get(error.code, ""))


def _sentence(text: str) -> str:
    text = text.strip() or "no reason was given"
    return text[0].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
