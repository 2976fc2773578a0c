"""Quotas of clients: which limit holds for a user and a client id, and how far it is used.

Limits are set for a user, a client id, or both, each by name or as a default. Of those that apply, the most specific
holds, in Kafka's order:

    user and client id, user and default client id, user,
    default user and client id, default user and default client id, default user,
    client id, default client id

What is measured is shared by those that the limit is for: a user's limit by all clients of the user, a client id's by
all users with that client id, a limit for both by the connections that have both. Each of them has a `TokenBucket`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from math import isfinite
from typing import Final, NamedTuple

from tidelog.quotas.token_bucket import TokenBucket

DEFAULT: Final = "<default>"
"""In place of a name: all that have no limit of their own."""

_MEASURED_MAX: Final = 10_000
"""Users and client ids that are measured at the same time. Beyond, those that were idle longest start over."""

_KEPT_LENGTH_MAX: Final = 255
"""Of a client id that is kept as it is; of a longer one the hash is kept. On the wire it may have 32,767 bytes, so that
those measured could fill hundreds of megabytes."""


class QuotaType(Enum):
    """What is limited, by Kafka's names of the limits."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"


class QuotaEntity(NamedTuple):
    """Whose limit: None where a user or a client id does not matter."""

    user: str | None = None
    client_id: str | None = None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, QuotaEntity]]:
    """The entities whose limits apply, the most specific first, each with those who share it."""
    kept = client_id if len(client_id) <= _KEPT_LENGTH_MAX else _hash(client_id)
    for name in (user, DEFAULT):
        for client in (client_id, DEFAULT):
            yield QuotaEntity(name, client), QuotaEntity(user, kept)
        yield QuotaEntity(name, None), QuotaEntity(user, None)
    for client in (client_id, DEFAULT):
        yield QuotaEntity(None, client), QuotaEntity(None, kept)


def _hash(client_id: str) -> str:
    from hashlib import sha256  # at the first long client id: a broker starts sooner without it

    return sha256(client_id.encode()).hexdigest()


class ClientQuotas:
    """All limits of one type, and what is measured against them."""

    def __init__(self, burst_ms: int = 10_000, *, is_debt_bounded: bool = False) -> None:
        """A client that was idle may spend at once what its limit lets through in `burst_ms`.

        With a bounded debt it has paid for the rest after the same time, however much it was.
        """
        self._burst_ms = burst_ms
        self._is_debt_bounded = is_debt_bounded
        self._limits: dict[QuotaEntity, float] = {}
        self._resolved: dict[tuple[str, str], tuple[QuotaEntity, float] | None] = {}
        self._buckets: dict[QuotaEntity, TokenBucket] = {}

    @property
    def is_limited(self) -> bool:
        return bool(self._limits)

    def set_limit(self, entity: QuotaEntity, limit: float | None) -> None:
        """Let a limit hold from now on, or none."""
        if limit is None:
            self._limits.pop(entity, None)
        else:
            self._limits[entity] = limit
        self._resolved.clear()

    def limit_of(self, user: str, client_id: str) -> tuple[QuotaEntity, float] | None:
        """The limit of a connection, with those who share it; None if there is none."""
        if len(client_id) > _KEPT_LENGTH_MAX:
            return self._resolve(user, client_id)
        key = user, client_id
        if key not in self._resolved:
            if len(self._resolved) >= _MEASURED_MAX:
                self._resolved.clear()
            self._resolved[key] = self._resolve(*key)
        return self._resolved[key]

    def _resolve(self, user: str, client_id: str) -> tuple[QuotaEntity, float] | None:
        for entity, sharing in _candidates(user, client_id):
            limit = self._limits.get(entity)
            if limit is not None:
                return sharing, limit
        return None

    def bucket_of(self, user: str, client_id: str, now_ms: int) -> TokenBucket | None:
        """What a client spends is taken from this bucket; None if there is no limit."""
        found = self.limit_of(user, client_id)
        if found is None:
            return None
        sharing, limit = found
        bucket = self._buckets.pop(sharing, None)
        if bucket is None:
            bucket = TokenBucket(limit, self._burst_ms, now_ms, is_debt_bounded=self._is_debt_bounded)
            if len(self._buckets) >= _MEASURED_MAX:
                del self._buckets[next(iter(self._buckets))]
        elif bucket.rate != limit:
            bucket.set_rate(limit, now_ms)
        self._buckets[sharing] = bucket  # last, as the one used last
        return bucket

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count a value. How long the client has to wait, in milliseconds; 0 if it need not."""
        bucket = self.bucket_of(user, client_id, now_ms)
        if bucket is None:
            return 0
        bucket.take(value, now_ms)
        return bucket.throttle_ms(now_ms)

    def try_record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """Count a value that is within the limit. Otherwise count nothing: how long the client has to wait for it."""
        bucket = self.bucket_of(user, client_id, now_ms)
        if bucket is None:
            return 0
        wait_ms = bucket.wait_ms(value, now_ms)
        if not wait_ms:
            bucket.take(value, now_ms)
        return wait_ms

    def wait_ms(self, user: str, client_id: str, now_ms: int) -> int:
        """How long the client has to wait, in milliseconds; 0 if it need not."""
        bucket = self.bucket_of(user, client_id, now_ms)
        return 0 if bucket is None else bucket.throttle_ms(now_ms)

    def measured(self) -> Iterator[tuple[QuotaEntity, float]]:
        """Those who share a limit, each with all that was counted for them."""
        for entity, bucket in list(self._buckets.items()):
            yield entity, bucket.taken


def limits_in(settings: Mapping[str, str]) -> dict[QuotaType, float]:
    """The limits among the settings of an entity."""
    return {kind: limit for kind in QuotaType if (limit := number_in(settings, kind.value)) is not None}


def number_in(settings: Mapping[str, str], name: str) -> float | None:
    """A limit, if it is there and a number: the tree may hold anything."""
    try:
        value = float(settings[name])
    except (KeyError, ValueError):
        return None
    return value if isfinite(value) else None
