"""Delegation tokens: made, listed, renewed and ended (KIP-48)."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import DelegationToken
from tidelog.client.errors import ApiError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from tidelog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tidelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from tidelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


async def create(driver: Driver, renewers: Iterable[str], owner: str | None, max_lifetime_ms: int) -> DelegationToken:
    """A new token, of the client itself unless an owner is named."""
    owner_type, owner_name = (None, None) if owner is None else _parts(owner)
    reply = await driver.client.send_to_any(
        CreateDelegationTokenRequest(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=[CreatableRenewers(principal_type=a, principal_name=b) for a, b in map(_parts, renewers)],
            max_lifetime_ms=max_lifetime_ms,
        ),
        CreateDelegationTokenResponse,
    )
    _check(reply.error_code, "the token is not created")
    return DelegationToken(
        reply.token_id,
        b64encode(reply.hmac).decode(),
        f"{reply.principal_type}:{reply.principal_name}",
        tuple(renewers),
        reply.issue_timestamp_ms,
        reply.expiry_timestamp_ms,
        reply.max_timestamp_ms,
    )


async def describe(driver: Driver, owners: Sequence[str] | None) -> list[DelegationToken]:
    """The tokens that the client may see, of these owners or of all."""
    named = None
    if owners is not None:
        named = [DescribeDelegationTokenOwner(principal_type=a, principal_name=b) for a, b in map(_parts, owners)]

    async def ask(node_id: int, _items: list[str]) -> Answers[str, DescribeDelegationTokenResponse]:
        request = DescribeDelegationTokenRequest(owners=named)
        reply = await driver.client.send(node_id, request, DescribeDelegationTokenResponse)
        return {"": answer_of(reply.error_code, None, reply, "tokens")}

    reply = (await driver.run([""], driver.to_any, ask))[""]
    return [
        DelegationToken(
            each.token_id,
            b64encode(each.hmac).decode(),
            f"{each.principal_type}:{each.principal_name}",
            tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers),
            each.issue_timestamp,
            each.expiry_timestamp,
            each.max_timestamp,
        )
        for each in reply.tokens
    ]


async def renew(driver: Driver, hmac: str, period_ms: int) -> int:
    """When the token expires now; -1 as the period is the broker's own."""
    reply = await driver.client.send_to_any(
        RenewDelegationTokenRequest(hmac=_secret(hmac), renew_period_ms=period_ms), RenewDelegationTokenResponse
    )
    _check(reply.error_code, "the token is not renewed")
    return reply.expiry_timestamp_ms


async def expire(driver: Driver, hmac: str, period_ms: int) -> int:
    """When the token expires; -1 as the period is at once."""
    reply = await driver.client.send_to_any(
        ExpireDelegationTokenRequest(hmac=_secret(hmac), expiry_time_period_ms=period_ms),
        ExpireDelegationTokenResponse,
    )
    _check(reply.error_code, "the token does not expire")
    return reply.expiry_timestamp_ms


def _secret(hmac: str) -> bytes:
    try:
        return b64decode(hmac, validate=True)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the HMAC of a token is base64") from None


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    return (kind, name) if colon else ("User", principal)


def _check(code: int, what: str) -> None:
    if code:
        raise ApiError(ErrorCode(code), f"{what}: {ErrorCode(code).text}")
