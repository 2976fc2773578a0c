"""DescribeUserScramCredentials and AlterUserScramCredentials: no user has credentials, and none can be given any.

SASL is not built. A password that was stored and never asked for would protect nothing, so setting one is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_Change = ScramCredentialDeletion | ScramCredentialUpsertion

_MECHANISMS: Final = (1, 2)
_ITERATIONS: Final = range(4096, 16385)


async def handle_describe(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    """All users are none; a user who is named does not exist."""
    response = DescribeUserScramCredentialsResponse()
    counts: Counter[str] = Counter()
    for user in request.users or ():
        counts[user.name] += 1
        await context.pause()
    for name, count in counts.items():
        code = ErrorCode.DUPLICATE_RESOURCE if count > 1 else ErrorCode.RESOURCE_NOT_FOUND
        text = f"user {name!r} is named {count} times" if count > 1 else f"user {name!r} has no SCRAM credentials"
        response.results.append(DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=text))
        await context.pause()
    return response


async def handle_alter(
    request: AlterUserScramCredentialsRequest, context: Context
) -> AlterUserScramCredentialsResponse:
    """Refuse each user for itself."""
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    seen: set[tuple[str, int]] = set()
    errors: dict[str, ApiError] = {}
    for change in changes:
        if (change.name, change.mechanism) in seen:
            text = f"user {change.name!r} is named twice for one mechanism"
            errors[change.name] = ApiError(ErrorCode.DUPLICATE_RESOURCE, text)
        errors.setdefault(change.name, _refusal(change))
        seen.add((change.name, change.mechanism))
        await context.pause()
    response = AlterUserScramCredentialsResponse()
    for name, error in errors.items():
        response.results.append(
            AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
        )
        await context.pause()
    return response


def _refusal(change: _Change) -> ApiError:
    if change.mechanism not in _MECHANISMS:
        return ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{change.mechanism} is not a SCRAM mechanism")
    if not change.name:
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user needs a name")
    if isinstance(change, ScramCredentialDeletion):
        return ApiError(ErrorCode.RESOURCE_NOT_FOUND, f"user {change.name!r} has no SCRAM credentials")
    if change.iterations not in _ITERATIONS:
        text = f"{change.iterations} iterations are not from {_ITERATIONS.start} to {_ITERATIONS.stop - 1}"
        return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    text = "SASL is not supported yet, so the password would never be checked"
    return ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, text)
