"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken.

Tokens are not supported: every request gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, as in Kafka on a PLAINTEXT listener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from tidelog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from tidelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from tidelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_CODE: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_USER: Final = "User"
_ANONYMOUS: Final = "ANONYMOUS"


def handle_create(_request: CreateDelegationTokenRequest, _context: Context) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=_CODE,
        principal_type=_USER,
        principal_name=_ANONYMOUS,
        token_requester_principal_type=_USER,
        token_requester_principal_name=_ANONYMOUS,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


def handle_renew(_request: RenewDelegationTokenRequest, _context: Context) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=_CODE, expiry_timestamp_ms=-1)


def handle_expire(_request: ExpireDelegationTokenRequest, _context: Context) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=_CODE, expiry_timestamp_ms=-1)


def handle_describe(_request: DescribeDelegationTokenRequest, _context: Context) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=_CODE)
