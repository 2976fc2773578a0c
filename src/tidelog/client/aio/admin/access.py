"""ACLs and client quotas as the cluster holds them."""

from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import ClientQuotaEntity
from tidelog.client.errors import ApiError
from tidelog.security.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import alter_client_quotas as quotas
from tidelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from tidelog.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tidelog.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tidelog.wire.messages.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse


async def create_acls(driver: Driver, bindings: Iterable[AclBinding]) -> None:
    """Add access control entries; those that exist stay."""

    async def ask(node_id: int, items: list[AclBinding]) -> Answers[AclBinding, None]:
        request = CreateAclsRequest(creations=[_creation(each) for each in items])
        reply = await driver.client.send(node_id, request, CreateAclsResponse)
        return {
            binding: answer_of(result.error_code, result.error_message, None, _words(binding))
            for binding, result in zip(items, reply.results, strict=True)
        }

    await driver.run(list(bindings), driver.to_any, ask)


async def describe_acls(driver: Driver, wanted: AclBindingFilter) -> list[AclBinding]:
    """The entries that a filter matches."""

    async def ask(node_id: int, items: list[AclBindingFilter]) -> Answers[AclBindingFilter, list[AclBinding]]:
        (wanted,) = items
        request = DescribeAclsRequest(**_filter_fields(wanted))
        reply = await driver.client.send(node_id, request, DescribeAclsResponse)
        found = [
            AclBinding(
                ResourcePattern(
                    AclResourceType(each.resource_type), each.resource_name, PatternType(each.pattern_type)
                ),
                AccessControlEntry(
                    acl.principal, acl.host, AclOperation(acl.operation), AclPermissionType(acl.permission_type)
                ),
            )
            for each in reply.resources
            for acl in each.acls
        ]
        return {wanted: answer_of(reply.error_code, reply.error_message, sorted(found), "ACLs")}

    return (await driver.run([wanted], driver.to_any, ask))[wanted]


async def delete_acls(driver: Driver, filters: Iterable[AclBindingFilter]) -> dict[AclBindingFilter, list[AclBinding]]:
    """Remove the entries that filters match; returns them."""

    async def ask(node_id: int, items: list[AclBindingFilter]) -> Answers[AclBindingFilter, list[AclBinding]]:
        request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter_fields(each)) for each in items])
        reply = await driver.client.send(node_id, request, DeleteAclsResponse)
        answers: Answers[AclBindingFilter, list[AclBinding]] = {}
        for wanted, result in zip(items, reply.filter_results, strict=True):
            failed = next((each for each in result.matching_acls if each.error_code), result)
            deleted = [_deleted(each) for each in result.matching_acls if not each.error_code]
            answers[wanted] = answer_of(failed.error_code, failed.error_message, deleted, "ACLs")
        return answers

    return await driver.run(list(filters), driver.to_any, ask)


def _creation(binding: AclBinding) -> AclCreation:
    resource, entry = binding
    return AclCreation(
        resource_type=resource.type,
        resource_name=resource.name,
        resource_pattern_type=resource.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _filter_fields(wanted: AclBindingFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _deleted(acl: DeleteAclsMatchingAcl) -> AclBinding:
    return AclBinding(
        ResourcePattern(AclResourceType(acl.resource_type), acl.resource_name, PatternType(acl.pattern_type)),
        AccessControlEntry(
            acl.principal, acl.host, AclOperation(acl.operation), AclPermissionType(acl.permission_type)
        ),
    )


def _words(binding: AclBinding) -> str:
    return f"the ACL of {binding.entry.principal} on {binding.resource.type.name.lower()} {binding.resource.name}"


# --- quotas ---


async def describe_client_quotas(driver: Driver) -> dict[ClientQuotaEntity, dict[str, float]]:
    """The quotas of every entity that has some."""

    async def ask(node_id: int, _items: list[str]) -> Answers[str, dict[ClientQuotaEntity, dict[str, float]]]:
        request = DescribeClientQuotasRequest(components=[], strict=False)
        reply = await driver.client.send(node_id, request, DescribeClientQuotasResponse)
        found = {
            ClientQuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): {
                each.key: each.value for each in entry.values
            }
            for entry in reply.entries or ()
        }
        return {"": answer_of(reply.error_code, reply.error_message, found, "quotas")}

    return (await driver.run([""], driver.to_any, ask))[""]


async def alter_client_quotas(
    driver: Driver, changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool
) -> None:
    """Set quotas of entities, or remove those whose value is None."""
    if not all(each.parts for each in changes):
        raise ApiError(ErrorCode.INVALID_REQUEST, "a quota needs a user, a client id or an address")

    async def ask(node_id: int, items: list[ClientQuotaEntity]) -> Answers[ClientQuotaEntity, None]:
        request = AlterClientQuotasRequest(
            entries=[
                quotas.EntryData(
                    entity=[quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in each.parts.items()],
                    ops=[
                        quotas.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in changes[each].items()
                    ],
                )
                for each in items
            ],
            validate_only=validate_only,
        )
        reply = await driver.client.send(node_id, request, AlterClientQuotasResponse)
        return {
            entity: answer_of(result.error_code, result.error_message, None, f"quotas of {entity}")
            for entity, result in zip(items, reply.entries, strict=True)
        }

    await driver.run(list(changes), driver.to_any, ask)
