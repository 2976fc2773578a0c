"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48, KIP-373).

They are refused without `delegation.token.secret.key`, to clients that are not authenticated, and to those that
authenticated with a token themselves: a token must not outlive the owner's own rights by making others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.network.session import ANONYMOUS, USER
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from tidelog.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tidelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from tidelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from tidelog.broker.security.delegation_tokens import TokenManager
    from tidelog.broker.serving.context import Context
    from tidelog.security.tokens import DelegationToken

_USER_TYPE: Final = USER.removesuffix(":")
_RENEWERS_MAX: Final = 1000


async def handle_create(request: CreateDelegationTokenRequest, context: Context) -> CreateDelegationTokenResponse:
    requester = context.session.principal
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    if not request.owner_principal_name:
        owner = requester
    try:
        _check_allowed(context)
        if owner != requester:
            context.check_allowed(AclOperation.CREATE_TOKENS, AclResourceType.USER, owner)
        if any(each.principal_type != _USER_TYPE for each in request.renewers):
            raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE, "renewers are users")
        if len(request.renewers) > _RENEWERS_MAX:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"a token may have {_RENEWERS_MAX} renewers")
        renewers = tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers)
        with metadata_errors_translated():
            token, secret = await _manager(context).create(owner, requester, renewers, request.max_lifetime_ms)
    except ApiError as error:
        return _created(owner, requester, CreateDelegationTokenResponse(error_code=error.code))
    return _created(
        owner,
        requester,
        CreateDelegationTokenResponse(
            issue_timestamp_ms=token.issued_ms,
            expiry_timestamp_ms=token.expires_ms,
            max_timestamp_ms=token.max_ms,
            token_id=token.token_id,
            hmac=secret,
        ),
    )


def _created(owner: str, requester: str, response: CreateDelegationTokenResponse) -> CreateDelegationTokenResponse:
    """Name the owner and the requester; a refusal has no times."""
    response.principal_type, _, response.principal_name = owner.partition(":")
    response.token_requester_principal_type, _, response.token_requester_principal_name = requester.partition(":")
    if response.error_code:
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = -1
    return response


async def handle_renew(request: RenewDelegationTokenRequest, context: Context) -> RenewDelegationTokenResponse:
    try:
        _check_allowed(context)
        with metadata_errors_translated():
            expires_ms = await _manager(context).renew(
                bytes(request.hmac), context.session.principal, request.renew_period_ms
            )
    except ApiError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


async def handle_expire(request: ExpireDelegationTokenRequest, context: Context) -> ExpireDelegationTokenResponse:
    try:
        _check_allowed(context)
        with metadata_errors_translated():
            expires_ms = await _manager(context).expire(
                bytes(request.hmac), context.session.principal, request.expiry_time_period_ms
            )
    except ApiError as error:
        return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)


async def handle_describe(request: DescribeDelegationTokenRequest, context: Context) -> DescribeDelegationTokenResponse:
    """The tokens of these owners, or all, that the client may see: its own, those it renews, those it has rights on."""
    _check_allowed(context)
    manager = _manager(context)
    owners = None
    if request.owners is not None:
        owners = {f"{each.principal_type}:{each.principal_name}" for each in request.owners}
    response = DescribeDelegationTokenResponse()
    for token in manager.tokens():
        if (owners is None or token.owner in owners) and _may_see(token, context):
            response.tokens.append(_described(token, manager.hmac_of(token)))
        await context.pause()
    return response


def _may_see(token: DelegationToken, context: Context) -> bool:
    if token.may_renew(context.session.principal):
        return True
    if context.node.access is None:
        return False
    return context.is_allowed(
        AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id, is_logged=False
    ) or context.is_allowed(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner, is_logged=False)


def _described(token: DelegationToken, secret: bytes) -> DescribedDelegationToken:
    owner_type, _, owner = token.owner.partition(":")
    requester_type, _, requester = token.requester.partition(":")
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=secret,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in token.renewers)
        ],
    )


def _check_allowed(context: Context) -> None:
    session = context.session
    is_known = session.security_protocol.startswith("SASL") or (
        session.security_protocol == "SSL" and session.principal != ANONYMOUS
    )
    if not is_known or session.has_token:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _manager(context: Context) -> TokenManager:
    if context.node.tokens is None:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return context.node.tokens
