"""DescribeUserScramCredentials and AlterUserScramCredentials: no user has credentials, and none can be set.

SASL is not supported yet. A stored password would never be checked, so setting one is rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Final

from tidelog.security.acls import Operation, ResourceType
from tidelog.wire.errors import ErrorCode
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

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_MECHANISMS: Final = (1, 2)
_ITERATIONS: Final = range(4096, 16385)


async def handle_describe(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    """The list of all users is empty; a named user does not exist."""
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
    """Reject each user: with the first error of its changes, or as a duplicate."""
    response = AlterUserScramCredentialsResponse()
    is_allowed = context.is_allowed(Operation.ALTER, ResourceType.CLUSTER)
    results: dict[str, AlterUserScramCredentialsResult] = {}
    mechanisms: dict[str, int] = {}
    """Of each user a bit for every mechanism: sets or pairs of a hundred thousand users would take long to free."""
    changes: Iterable[_Change] = chain(request.deletions, request.upsertions)
    for change in changes:
        result = results.get(change.name)
        if result is None:
            result = results[change.name] = AlterUserScramCredentialsResult(user=change.name)
            result.error_code, result.error_message = _refusal(change)
            if not is_allowed:
                result.error_code, result.error_message = _DENIED, _DENIED.text
            response.results.append(result)
        bit = 1 << (change.mechanism & 0xFF)
        seen = mechanisms.get(change.name, 0)
        if seen & bit:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = f"user {change.name!r} is named twice for one mechanism"
        mechanisms[change.name] = seen | bit
        await context.pause()
    return response


def _refusal(change: _Change) -> tuple[ErrorCode, str]:
    if change.mechanism not in _MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{change.mechanism} is not a SCRAM mechanism"
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user needs a name"
    if isinstance(change, ScramCredentialDeletion):
        return ErrorCode.RESOURCE_NOT_FOUND, f"user {change.name!r} has no SCRAM credentials"
    if change.iterations not in _ITERATIONS:
        text = f"{change.iterations} iterations are not from {_ITERATIONS.start} to {_ITERATIONS.stop - 1}"
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, text
    text = "SASL is not supported yet, so the password would never be checked"
    return ErrorCode.UNSUPPORTED_SASL_MECHANISM, text
