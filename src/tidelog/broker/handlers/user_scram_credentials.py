"""DescribeUserScramCredentials and AlterUserScramCredentials: who may log in with SCRAM (KIP-554).

A client sends the salted password, never the password; what is stored is what the broker needs to check a proof. All
changes of one user are made together or refused together.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Final

from tidelog.broker.metadata_errors import storage_error
from tidelog.metadata.errors import StoreError, StoreUnavailableError
from tidelog.metadata.users import alter_user
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, make_credential
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.broker.serving.node import Node

logger = logging.getLogger(__name__)

_Change = ScramCredentialDeletion | ScramCredentialUpsertion

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_NUMBERS: Final = {name: number for number, name in _MECHANISMS.items()}


async def handle_describe(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    """The mechanisms and iterations of the users that are named, or of all that have credentials."""
    credentials = context.node.listener_security.credentials
    response = DescribeUserScramCredentialsResponse()
    counts: Counter[str] = Counter()
    for user in request.users or ():
        counts[user.name] += 1
        await context.pause()
    for name in counts or credentials.users():
        result = DescribeUserScramCredentialsResult(user=name)
        infos = credentials.iterations_of(name)
        if counts[name] > 1:
            result.error_code = ErrorCode.DUPLICATE_RESOURCE
            result.error_message = f"Cannot describe SCRAM credentials for the same user twice in one request: {name}"
        elif not infos:
            result.error_code = ErrorCode.RESOURCE_NOT_FOUND
            result.error_message = f"Attempt to describe a user credential that does not exist: {name}"
        else:
            result.credential_infos = [
                CredentialInfo(mechanism=_NUMBERS[mechanism], iterations=iterations)
                for mechanism, iterations in infos.items()
            ]
        response.results.append(result)
        await context.pause()
    return response


async def handle_alter(
    request: AlterUserScramCredentialsRequest, context: Context
) -> AlterUserScramCredentialsResponse:
    """Change each user for itself: of what is wrong with several changes the first, unless one stands there twice."""
    node = context.node
    response = AlterUserScramCredentialsResponse()
    is_allowed = context.is_allowed(AclOperation.ALTER, AclResourceType.CLUSTER)
    users: dict[str, _User] = {}
    changes: Iterable[_Change] = chain(request.deletions, request.upsertions)
    for change in changes:
        user = users.get(change.name)
        if user is None:
            user = users[change.name] = _User(change.name)
            response.results.append(user.result)
        user.add(change, node)
        if not is_allowed:
            user.deny()
        await context.pause()
    has_changed = False
    for user in users.values():
        has_changed = await user.store(node) or has_changed
        await node.slices.pause()
    if has_changed:
        try:
            await node.dynamic_config.take()
        except StoreError as error:
            logger.error("SCRAM credentials were stored and could not be read again: %s", error)
    return response


class _User:
    """The changes of one user, and what becomes of them."""

    __slots__ = ("_changes", "_seen", "result")

    def __init__(self, name: str) -> None:
        self.result = AlterUserScramCredentialsResult(user=name)
        self._changes: list[_Change] = []
        self._seen = 0
        """A bit for every mechanism: sets of a hundred thousand users would take long to free."""

    def add(self, change: _Change, node: Node) -> None:
        bit = 1 << (change.mechanism & 0xFF)
        if self._seen & bit:
            self._refuse(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
        elif not self.result.error_code:
            refusal = _refusal(change, node)
            if refusal is not None:
                self._refuse(*refusal)
        self._seen |= bit
        self._changes.append(change)

    def deny(self) -> None:
        """The client may not alter users."""
        self._refuse(_DENIED, _DENIED.text)

    def _refuse(self, code: ErrorCode, text: str) -> None:
        self.result.error_code, self.result.error_message = code, text

    async def store(self, node: Node) -> bool:
        """Write the changes, unless something is wrong with them; whether they were written."""
        if self.result.error_code:
            return False
        settings = [(_MECHANISMS[each.mechanism], _credential_text(each)) for each in self._changes]
        try:
            await node.metadata.run(alter_user, self.result.user, settings)
        except StoreUnavailableError as error:
            refused = storage_error(error)
            self._refuse(refused.code, refused.message or "")
            return False
        except ApiError as error:
            self._refuse(error.code, error.message or "")
            return False
        logger.info("SCRAM credentials of user %r changed: %s", self.result.user, [name for name, _ in settings])
        return True


def _credential_text(change: _Change) -> str | None:
    if isinstance(change, ScramCredentialDeletion):
        return None
    mechanism = _MECHANISMS[change.mechanism]
    return str(make_credential(mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations))


def _refusal(change: _Change, node: Node) -> tuple[ErrorCode, str] | None:
    if not node.topology.is_controller:
        return ErrorCode.NOT_CONTROLLER, "This broker is not the active controller"
    if not change.name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    mechanism = _MECHANISMS.get(change.mechanism)
    if mechanism is None:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, ScramCredentialDeletion):
        if mechanism not in node.listener_security.credentials.iterations_of(change.name):
            return ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        return None
    if change.iterations < ITERATIONS_MIN:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too few iterations: at least {ITERATIONS_MIN} are needed"
    if change.iterations > ITERATIONS_MAX:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too many iterations: at most {ITERATIONS_MAX} are accepted"
    return None
