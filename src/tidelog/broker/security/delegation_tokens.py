"""The delegation tokens of a cluster, as this broker knows them: made, renewed, expired, and logged in with.

There is a manager only where `delegation.token.secret.key` is set. Tokens are read from the tree when the broker starts
and whenever a change is announced. Every broker looks for expired ones from time to time and removes them; a token that
has expired opens no session, removed or not.
"""

from __future__ import annotations

import logging
import os
import uuid
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final

from tidelog.broker.configuration.announced_changes import AnnouncedChanges
from tidelog.metadata.errors import StoreError
from tidelog.metadata.tokens import (
    TOKEN_CHANGES,
    prepare_token_nodes,
    read_token,
    read_tokens,
    remove_token,
    write_token,
)
from tidelog.network.session import USER
from tidelog.security.scram import HASHES, ITERATIONS_MIN, ScramCredential, make_credential, salted_password
from tidelog.security.tokens import DelegationToken, token_hmac, token_password
from tidelog.tasks import OwnedTasks
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.metadata.store import Store
    from tidelog.metadata.store_queue import StoreQueue
    from tidelog.timing import Clock, Scheduler

logger = logging.getLogger(__name__)

TOKENS_MAX: Final = 100_000
"""Of a cluster. A client that may create tokens must not fill the memory of brokers with them."""


class TokenManager:
    """The tokens and what is done with them. Times are wall-clock milliseconds."""

    def __init__(
        self, secret_key: str, settings: CurrentSettings, metadata: StoreQueue, clock: Clock, scheduler: Scheduler
    ) -> None:
        self._settings = settings
        self._metadata = metadata
        self._clock = clock
        self._scheduler = scheduler
        self._secret_key = secret_key
        self._tokens: dict[str, DelegationToken] = {}
        self._ids: dict[bytes, str] = {}
        """Ids by the secrets that clients name tokens with."""
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._changes = AnnouncedChanges("delegation tokens", TOKEN_CHANGES, metadata, clock.wall_ms, self._follow)
        self.look = self._changes.look
        self._tasks = OwnedTasks()

    # --- what the tree has ---

    def start(self, store: Store) -> None:
        """Read all tokens, and follow their changes from now on."""
        prepare_token_nodes(store)
        self._changes.start(store)
        for token in read_tokens(store):
            self._replace(token.token_id, token)

    def schedule_checks(self) -> None:
        """Look for expired tokens from time to time."""
        period_ms = self._settings.config.delegation_token_expiry_check_interval_ms
        self._scheduler.schedule("delegation-token-expiry", self._expire_soon, period_ms, period_ms)

    async def _follow(self, token_id: str) -> None:
        self._replace(token_id, await self._metadata.run(read_token, token_id))

    def _replace(self, token_id: str, token: DelegationToken | None) -> None:
        secret = token_hmac(self._secret_key, token_id)
        if token is not None:
            self._tokens[token_id] = token
            self._ids[secret] = token_id
            return
        self._tokens.pop(token_id, None)
        self._ids.pop(secret, None)
        for mechanism in HASHES:
            self._credentials.pop((mechanism, token_id), None)

    def _expire_soon(self) -> None:
        self._tasks.spawn(self._remove_expired())

    async def _remove_expired(self) -> None:
        now_ms = self._clock.wall_ms()
        for token in [token for token in self._tokens.values() if token.is_expired(now_ms)]:
            try:
                await self._metadata.run(remove_token, token.token_id)
            except StoreError as error:
                logger.warning("expired delegation tokens cannot be removed: %s", error)
                return
            self._replace(token.token_id, None)
            logger.info("delegation token %s of %s has expired", token.token_id, token.owner)

    # --- what clients ask for ---

    async def create(
        self, owner: str, requester: str, renewers: tuple[str, ...], max_lifetime_ms: int
    ) -> tuple[DelegationToken, bytes]:
        """A new token and its secret. `max_lifetime_ms` of 0 or less is the broker's own."""
        if len(self._tokens) >= TOKENS_MAX:
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"the cluster has {TOKENS_MAX} delegation tokens, its limit")
        config, now_ms = self._settings.config, self._clock.wall_ms()
        lifetime_ms = config.delegation_token_max_lifetime_ms
        if max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, max_lifetime_ms)
        expires_ms = now_ms + min(lifetime_ms, config.delegation_token_expiry_time_ms)
        token_id = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        token = DelegationToken(token_id, owner, requester, renewers, now_ms, now_ms + lifetime_ms, expires_ms)
        await self._metadata.run(write_token, token)
        self._replace(token_id, token)
        return token, self.hmac_of(token)

    async def renew(self, secret: bytes, principal: str, period_ms: int) -> int:
        """Let a token expire later; a negative period is the broker's own. Returns when it expires."""
        token = self._owned(secret, principal)
        now_ms = self._clock.wall_ms()
        if token.is_expired(now_ms):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        if period_ms < 0:
            period_ms = self._settings.config.delegation_token_expiry_time_ms
        return await self._set_expiry(token, min(now_ms + period_ms, token.max_ms))

    async def expire(self, secret: bytes, principal: str, period_ms: int) -> int:
        """Let a token expire in a while; at once if the period is negative. Returns when it expires."""
        token = self._owned(secret, principal)
        now_ms = self._clock.wall_ms()
        if period_ms < 0:
            await self._metadata.run(remove_token, token.token_id)
            self._replace(token.token_id, None)
            return now_ms
        if token.is_expired(now_ms):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return await self._set_expiry(token, min(now_ms + period_ms, token.max_ms))

    async def _set_expiry(self, token: DelegationToken, expires_ms: int) -> int:
        changed = token._replace(expires_ms=expires_ms)
        await self._metadata.run(write_token, changed)
        self._replace(token.token_id, changed)
        return expires_ms

    def _owned(self, secret: bytes, principal: str) -> DelegationToken:
        """The token of a secret, if the principal may change it."""
        token_id = self._ids.get(secret)
        if token_id is None:
            raise ApiError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        token = self._tokens[token_id]
        if not token.may_renew(principal):
            raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token

    def tokens(self) -> list[DelegationToken]:
        return list(self._tokens.values())

    def hmac_of(self, token: DelegationToken) -> bytes:
        return token_hmac(self._secret_key, token.token_id)

    # --- logins ---

    def login(self, mechanism: str, token_id: str) -> tuple[str, ScramCredential, int] | None:
        """The owner and the credential of a token that has not expired, and when it does.

        The first login with a token takes some milliseconds: its credential is computed then.
        """
        token = self._tokens.get(token_id)
        if token is None or token.is_expired(self._clock.wall_ms()):
            return None
        credential = self._credentials.get((mechanism, token_id))
        if credential is None:
            salt = os.urandom(16)
            password = token_password(self._secret_key, token_id)
            salted = salted_password(mechanism, password, salt, ITERATIONS_MIN)
            credential = make_credential(mechanism, salted, salt, ITERATIONS_MIN)
            self._credentials[mechanism, token_id] = credential
        return token.owner.removeprefix(USER), credential, token.expires_ms
