"""SCRAM credentials of users: which mechanisms they have, and changes of them (KIP-554)."""

from collections.abc import Iterable, Sequence
from typing import Final

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import ScramCredentialDeletion, ScramCredentialUpsert
from tidelog.client.errors import ApiError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import alter_user_scram_credentials as altering
from tidelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from tidelog.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

_NAMES: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_NUMBERS: Final = {name: number for number, name in _NAMES.items()}

ScramChange = ScramCredentialUpsert | ScramCredentialDeletion


async def describe(driver: Driver, users: Sequence[str] | None) -> dict[str, dict[str, int]]:
    """Iterations by mechanism, by user; all users that have credentials if `users` is None."""
    named = None if users is None else [UserName(name=name) for name in users]

    async def ask(node_id: int, _items: list[str]) -> Answers[str, DescribeUserScramCredentialsResponse]:
        request = DescribeUserScramCredentialsRequest(users=named)
        reply = await driver.client.send(node_id, request, DescribeUserScramCredentialsResponse)
        return {"": answer_of(reply.error_code, reply.error_message, reply, "users")}

    reply = (await driver.run([""], driver.to_any, ask))[""]
    found: dict[str, dict[str, int]] = {}
    for result in reply.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        if result.error_code:
            raise ApiError(ErrorCode(result.error_code), result.error_message)
        found[result.user] = {
            _NAMES.get(info.mechanism, str(info.mechanism)): info.iterations for info in result.credential_infos
        }
    return found


async def alter(driver: Driver, changes: Iterable[ScramChange]) -> None:
    """Make the changes; those of one user together or not at all."""
    by_user: dict[str, list[ScramChange]] = {}
    for change in changes:
        by_user.setdefault(change.user, []).append(change)

    async def ask(node_id: int, users: list[str]) -> Answers[str, None]:
        wanted = [change for user in users for change in by_user[user]]
        request = AlterUserScramCredentialsRequest(
            deletions=[_deletion(each) for each in wanted if isinstance(each, ScramCredentialDeletion)],
            upsertions=[_upsertion(each) for each in wanted if isinstance(each, ScramCredentialUpsert)],
        )
        reply = await driver.client.send(node_id, request, AlterUserScramCredentialsResponse)
        return {
            each.user: answer_of(each.error_code, each.error_message, None, f"user {each.user}")
            for each in reply.results
        }

    await driver.run(list(by_user), driver.to_controller, ask)


def _deletion(change: ScramCredentialDeletion) -> altering.ScramCredentialDeletion:
    return altering.ScramCredentialDeletion(name=change.user, mechanism=_NUMBERS[change.mechanism])


def _upsertion(change: ScramCredentialUpsert) -> altering.ScramCredentialUpsertion:
    return altering.ScramCredentialUpsertion(
        name=change.user,
        mechanism=_NUMBERS[change.mechanism],
        iterations=change.iterations,
        salt=change.salt,
        salted_password=change.salted_password,
    )
