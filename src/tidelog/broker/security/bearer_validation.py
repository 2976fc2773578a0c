"""Bearer tokens of clients: validated with the keys of their issuer, which are fetched off the loop.

Keys are refreshed every `sasl.oauthbearer.jwks.endpoint.refresh.ms`. A token that names a key which is not known makes
its login wait for one more fetch, at most one a second for all of them: an issuer that rotates its keys needs no
restart and loses no login. Keys stay in use while their endpoint cannot be reached.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.client.endpoint import Endpoint, EndpointError, endpoint_of
from tidelog.config import BrokerConfig, ConfigError
from tidelog.config.java_classes import UNSECURED_VALIDATOR
from tidelog.security.bearer_tokens import TokenRules, key_id_of, parse_keys, validate_signed, validate_unsecured
from tidelog.security.login import OAUTHBEARER, parse_login

if TYPE_CHECKING:
    from tidelog.security.mechanism import Work
    from tidelog.security.oauthbearer import BearerToken
    from tidelog.timing import Clock

logger = logging.getLogger(__name__)

_EXPEDITED_MS_MIN: Final = 1000
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_UNSECURED: Final = "unsecuredValidator"


class SignedTokens:
    """Validates tokens with the keys of one endpoint. Made where it may block: the keys are fetched first."""

    def __init__(self, endpoint: Endpoint, rules: TokenRules, refresh_ms: int, clock: Clock) -> None:
        """Raises ConfigError if there are no keys."""
        self._endpoint = endpoint
        self._rules = rules
        self._refresh_every_ms = refresh_ms
        self._clock = clock
        try:
            self._keys = parse_keys(endpoint.fetch(), endpoint.url)
        except EndpointError as error:
            raise ConfigError(f"{_URL}: the keys of the issuer cannot be fetched: {error}", setting=_URL) from error
        self._fetched_ms = clock.monotonic_ms()

    def due_refresh(self) -> Work | None:
        """The regular fetch, if it is time for it."""
        return self._refresh if self._age_ms() >= self._refresh_every_ms else None

    def due_work(self, token: str) -> Work | None:
        """One more fetch, if the token names a key that is not known."""
        key_id = key_id_of(token)
        if key_id is None or any(key.key_id == key_id for key in self._keys):
            return None
        return self._expedite if self._age_ms() >= _EXPEDITED_MS_MIN else None

    def validate(self, token: str) -> BearerToken:
        return validate_signed(token, self._keys, self._rules, self._clock.wall_ms())

    def _age_ms(self) -> int:
        return self._clock.monotonic_ms() - self._fetched_ms

    def _refresh(self) -> None:
        self._replace(with_retries=True)

    def _expedite(self) -> None:
        self._replace(with_retries=False)

    def _replace(self, *, with_retries: bool) -> None:
        """On a thread. The time is that of the attempt: an endpoint that fails is not asked by every login."""
        try:
            data = self._endpoint.fetch() if with_retries else self._endpoint.fetch_once()
            keys = parse_keys(data, self._endpoint.url)
        except (EndpointError, ConfigError) as error:
            logger.error("the keys that verify bearer tokens stay as they were: %s", error)
        else:
            if {key.key_id for key in keys} != {key.key_id for key in self._keys}:
                logger.info("the keys that verify bearer tokens are now %s", sorted(str(key.key_id) for key in keys))
            self._keys = keys
        self._fetched_ms = self._clock.monotonic_ms()


class UnsecuredTokens:
    """Accepts tokens without a signature: anybody can be anyone. For development."""

    def __init__(self, rules: TokenRules, required_scopes: tuple[str, ...], clock: Clock) -> None:
        self._rules = rules
        self._required_scopes = required_scopes
        self._clock = clock

    def due_refresh(self) -> Work | None:
        return None

    def due_work(self, _token: str) -> Work | None:
        return None

    def validate(self, token: str) -> BearerToken:
        return validate_unsecured(token, self._rules, self._required_scopes, self._clock.wall_ms())


class BearerValidators:
    """The validators of a broker's listeners. One whose settings have not changed is kept, with its keys."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[str, tuple[tuple[object, ...], SignedTokens | UnsecuredTokens]] = {}

    def of(self, config: BrokerConfig, listener: str) -> SignedTokens | UnsecuredTokens:
        """The validator of one listener. May block; raises ConfigError."""
        settings = config.for_mechanism(listener, OAUTHBEARER)
        jaas_setting, jaas = config.jaas_of(listener, OAUTHBEARER)
        made_by = jaas, *(getattr(settings, each) for each in _FIELDS)
        before = self._made.get(listener)
        if before is not None and before[0] == made_by:
            return before[1]
        options = {} if jaas is None else parse_login(OAUTHBEARER, jaas, jaas_setting).options
        made = _make(settings, options, listener, jaas_setting, self._clock)
        self._made[listener] = made_by, made
        return made


_FIELDS: Final = tuple(
    each.field
    for each in BrokerConfig.settings.values()
    if each.name.startswith("sasl.oauthbearer.") or each.name == "sasl.server.callback.handler.class"
)


def _make(
    settings: BrokerConfig, options: Mapping[str, str], listener: str, jaas_setting: str, clock: Clock
) -> SignedTokens | UnsecuredTokens:
    handler = settings.sasl_server_callback_handler_class
    url = settings.sasl_oauthbearer_jwks_endpoint_url
    is_asked_for = handler == UNSECURED_VALIDATOR
    if url is not None and not is_asked_for:
        return _signed(settings, options, url, clock)
    if is_asked_for or (handler is None and any(name.startswith(_UNSECURED) for name in options)):
        logger.warning(
            "listener %s accepts bearer tokens without a signature: every client can claim any name. For development "
            "only; set %s otherwise",
            listener,
            _URL,
        )
        return _unsecured(options, jaas_setting, clock)
    raise ConfigError(
        f"listener {listener}: OAUTHBEARER needs {_URL}, the keys of the issuer of tokens. Tokens without a signature "
        f'are accepted, for development, if {jaas_setting} has an option such as {_UNSECURED}PrincipalClaimName="sub"',
        setting=_URL,
    )


def _signed(settings: BrokerConfig, options: Mapping[str, str], url: str, clock: Clock) -> SignedTokens:
    endpoint = endpoint_of(
        url,
        _URL,
        options,
        retry_backoff_ms=settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        retry_backoff_max_ms=settings.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
    )
    rules = TokenRules(
        expected_audience=settings.sasl_oauthbearer_expected_audience or (),
        expected_issuer=settings.sasl_oauthbearer_expected_issuer,
        clock_skew_ms=settings.sasl_oauthbearer_clock_skew_seconds * 1000,
        scope_claim=settings.sasl_oauthbearer_scope_claim_name,
        sub_claim=settings.sasl_oauthbearer_sub_claim_name,
    )
    return SignedTokens(endpoint, rules, settings.sasl_oauthbearer_jwks_endpoint_refresh_ms, clock)


def _unsecured(options: Mapping[str, str], jaas_setting: str, clock: Clock) -> UnsecuredTokens:
    skew = options.get(f"{_UNSECURED}AllowableClockSkewMs", "0")
    if not skew.isdecimal():
        raise ConfigError(
            f"{jaas_setting}: {_UNSECURED}AllowableClockSkewMs={skew} is not a number", setting=jaas_setting
        )
    rules = TokenRules(
        clock_skew_ms=int(skew),
        scope_claim=options.get(f"{_UNSECURED}ScopeClaimName", "scope"),
        sub_claim=options.get(f"{_UNSECURED}PrincipalClaimName", "sub"),
    )
    return UnsecuredTokens(rules, tuple(options.get(f"{_UNSECURED}RequiredScope", "").split()), clock)
