"""SASL GSSAPI (RFC 4752) with Kerberos 5, through python-gssapi (`pip install 'tidelog[kerberos]'`).

    client                                         broker
    token of the security context             →
                                              ←    token of the security context
    nothing                                   →
                                              ←    the security layers that the broker offers: none
    the one that the client chooses           →

The library reads key tables and talks to the KDC by itself, as `/etc/krb5.conf` (`KRB5_CONFIG`) says; whatever may
block is left to the caller's thread. The identity of a client is that of its ticket: an authorization id is not looked
at, as in Kafka.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from enum import Enum, auto
from functools import partial
from typing import Any, Final

from tidelog.config.errors import ConfigError
from tidelog.security.errors import SaslError, SaslMalformed, SaslRejected
from tidelog.security.kerberos_names import LocalNames
from tidelog.security.mechanism import Work

NAME: Final = "GSSAPI"
_NO_LAYER: Final = 1
_OFFER: Final = bytes((_NO_LAYER, 0, 0, 0))
_FAILED: Final = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


class _Stage(Enum):
    CONTEXT = auto()
    OFFER = auto()
    CHOICE = auto()
    DONE = auto()


class KerberosServer:
    """One authentication, with the broker's `credentials`."""

    __slots__ = ("_context", "_is_established", "_local_names", "_outcome", "_stage", "user")
    has_token = False
    expires_ms = None

    def __init__(self, credentials: Any, local_names: LocalNames) -> None:
        gssapi = library("sasl.enabled.mechanisms")
        self._context = gssapi.SecurityContext(creds=credentials, usage="accept")
        self._local_names = local_names
        self._stage = _Stage.CONTEXT
        self._outcome: bytes | SaslError = b""
        self._is_established = False
        self.user: str | None = None

    def prepare(self, message: bytes) -> Work | None:
        """Accepting a ticket reads the key table and writes the replay cache."""
        return partial(self._accept, message) if self._stage is _Stage.CONTEXT else None

    def respond(self, message: bytes) -> bytes:
        if self._stage is _Stage.CONTEXT:
            return self._accepted()
        if self._stage is _Stage.OFFER:
            if message:
                raise SaslMalformed("Invalid GSSAPI message: expected an empty one")
            return self._offer()
        if self._stage is _Stage.CHOICE:
            return self._finish(message)
        raise SaslMalformed("Invalid GSSAPI message: the exchange is complete")

    def _accept(self, message: bytes) -> None:
        """On a thread."""
        try:
            # The library keeps the error of a step for the next use of the context, which is `complete`.
            self._outcome = self._context.step(message) or b""
            self._is_established = self._context.complete
        except _errors() as error:
            # The peer learns no more than that it failed.
            self._outcome = _Failed(f"the ticket is not accepted: {_text(error)}")

    def _accepted(self) -> bytes:
        if isinstance(self._outcome, SaslError):
            raise self._outcome
        if not self._is_established:
            return self._outcome
        if not self._outcome:
            return self._offer()
        self._stage = _Stage.OFFER
        return self._outcome

    def _offer(self) -> bytes:
        self._stage = _Stage.CHOICE
        wrapped: bytes = self._context.wrap(_OFFER, False).message
        return wrapped

    def _finish(self, message: bytes) -> bytes:
        try:
            choice = self._context.unwrap(message).message
            principal = str(self._context.initiator_name)
        except _errors() as error:
            raise _Failed(f"the client's choice of a security layer cannot be read: {_text(error)}") from error
        if len(choice) < len(_OFFER) or choice[0] != _NO_LAYER:
            raise SaslRejected("Authentication failed: the client demands a security layer, which GSSAPI here has not")
        self._stage = _Stage.DONE
        self.user = self._local_names.user_of(principal)
        return b""


class _Failed(SaslRejected):
    """The text is for the log."""

    @property
    def reason(self) -> str:
        return _FAILED


class KerberosLogin:
    """Tickets for the connections of one client."""

    mechanism = NAME
    blocks = True

    def __init__(self, service: str, principal: str | None, store: Mapping[str, str]) -> None:
        """`store` names the key table or the ticket cache."""
        self._service = service
        self._principal = principal
        self._store = dict(store)

    def __repr__(self) -> str:
        return f"KerberosLogin({self._principal!r})"

    def begin(self, host: str) -> KerberosClient:
        """The library fetches and renews the ticket-granting ticket of a key table by itself."""
        gssapi = library("sasl.mechanism")
        try:
            name = None if self._principal is None else _principal_name(self._principal)
            credentials = _credentials(name, "initiate", self._store)
            target = gssapi.Name(f"{self._service}@{host}", gssapi.NameType.hostbased_service)
            return KerberosClient(
                gssapi.SecurityContext(name=target, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos)
            )
        except _errors() as error:
            raise SaslRejected(
                f"Kerberos has no ticket for {self._principal or 'this user'}: {_text(error)}"
            ) from error


class KerberosClient:
    """The client's side of one authentication. May block: the ticket for the broker comes from the KDC."""

    __slots__ = ("_context", "_has_chosen", "_is_established", "is_complete")

    def __init__(self, context: Any) -> None:
        self._context = context
        self._has_chosen = False
        self._is_established = False
        self.is_complete = False

    def first(self) -> bytes:
        return self._step(None)

    def respond(self, message: bytes) -> bytes | None:
        if self._has_chosen:
            if message:
                raise SaslMalformed("the broker answered GSSAPI after its end")
            self.is_complete = True
            return None
        return self._choose(message) if self._is_established else self._step(message)

    def _step(self, message: bytes | None) -> bytes:
        try:
            token = self._context.step(message) or b""
            self._is_established = self._context.complete
        except _errors() as error:
            raise SaslRejected(f"Kerberos: {_text(error)}") from error
        return token

    def _choose(self, message: bytes) -> bytes:
        try:
            offer = self._context.unwrap(message).message
            if len(offer) != len(_OFFER) or not offer[0] & _NO_LAYER:
                raise SaslMalformed("the broker demands a security layer of GSSAPI, which Kafka's protocol has not")
            self._has_chosen = True
            chosen: bytes = self._context.wrap(_OFFER, False).message
            return chosen
        except _errors() as error:
            raise SaslRejected(f"Kerberos: {_text(error)}") from error


def kerberos_login(options: Mapping[str, str], service: str | None, setting: str) -> KerberosLogin:
    """The login that the options of Krb5LoginModule describe. Raises ConfigError."""
    library("sasl.mechanism")
    service = service or options.get("serviceName")
    if not service:
        raise ConfigError(
            "GSSAPI needs sasl.kerberos.service.name, the first component of the brokers' principal",
            setting="sasl.kerberos.service.name",
        )
    if _is_true(options, "useKeyTab"):
        principal, key_tab = _needed(options, "principal", setting), _needed(options, "keyTab", setting)
        # A cache of this login alone: that of the user may belong to another principal.
        store = {"client_keytab": key_tab, "ccache": f"MEMORY:tidelog-{secrets.token_hex(8)}"}
        return KerberosLogin(service, principal, store)
    if _is_true(options, "useTicketCache"):
        return KerberosLogin(
            service, options.get("principal"), {"ccache": options["ticketCache"]} if "ticketCache" in options else {}
        )
    raise ConfigError(f"{setting}: Krb5LoginModule needs useKeyTab=true or useTicketCache=true", setting=setting)


def broker_credentials(options: Mapping[str, str], setting: str) -> Any:
    """What a listener accepts tickets with, from the options of Krb5LoginModule. May block; raises ConfigError."""
    library("sasl.enabled.mechanisms")
    principal, key_tab = _needed(options, "principal", setting), _needed(options, "keyTab", setting)
    try:
        return _credentials(_principal_name(principal), "accept", {"keytab": key_tab})
    except _errors() as error:
        raise ConfigError(
            f"{setting}: the key table {key_tab} has no usable key of {principal}: {_text(error)}", setting=setting
        ) from error


def default_realm() -> str | None:
    """The realm of principals that name none; None without `krb5.conf`."""
    gssapi = library("sasl.enabled.mechanisms")
    try:
        name = str(gssapi.Name("x", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos))
    except _errors():
        return None
    return name.partition("@")[2] or None


def library(setting: str) -> Any:
    """python-gssapi. Raises ConfigError where it is not installed."""
    try:
        import gssapi
    except (ImportError, OSError) as error:
        raise ConfigError(
            f"{setting}: GSSAPI needs python-gssapi, which is not installed: pip install 'tidelog[kerberos]', with the "
            "Kerberos 5 libraries of the system (libkrb5-dev)",
            setting=setting,
        ) from error
    return gssapi


def _credentials(name: Any, usage: str, store: Mapping[str, str]) -> Any:
    """Of Kerberos alone: SPNEGO would negotiate among mechanisms, which SASL has done already."""
    gssapi = library("sasl.jaas.config")
    return gssapi.Credentials(name=name, usage=usage, store=dict(store) or None, mechs=[gssapi.MechType.kerberos])


def _principal_name(principal: str) -> Any:
    gssapi = library("sasl.jaas.config")
    return gssapi.Name(principal, gssapi.NameType.kerberos_principal)


def _errors() -> type[Exception]:
    errors: type[Exception] = library("sasl.mechanism").exceptions.GSSError
    return errors


def _text(error: BaseException) -> str:
    return " ".join(str(error).split())


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"


def _needed(options: Mapping[str, str], name: str, setting: str) -> str:
    if not options.get(name):
        raise ConfigError(f"{setting}: Krb5LoginModule needs the option {name}", setting=setting)
    return options[name]
