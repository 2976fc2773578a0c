"""DescribeAcls, CreateAcls and DeleteAcls. Without an authorizer they answer SECURITY_DISABLED, as Kafka does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.broker.metadata_errors import metadata_errors_translated
from tidelog.security.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
    problem_of,
)
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from tidelog.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.security.access import Access
    from tidelog.broker.serving.context import Context
    from tidelog.metadata.acls import Entries

CHANGES_MAX: Final = 10_000
"""Of one request. Each resource that changes takes a few writes to the metadata tree."""

Member = TypeVar("Member", bound=IntEnum)


async def handle_describe(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    """The entries that match, by resource."""
    access = _access(context)
    resources: dict[ResourcePattern, DescribeAclsResource] = {}
    for resource, entry in access.authorizer.find(_filter(request)):
        described = resources.get(resource)
        if described is None:
            described = resources[resource] = DescribeAclsResource(
                resource_type=resource.type, resource_name=resource.name, pattern_type=resource.pattern
            )
        described.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
        )
        await context.pause()
    return DescribeAclsResponse(resources=list(resources.values()))


# --- creation ---


async def handle_create(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    """Add what is valid, resource by resource; say of each of the others what is wrong with it."""
    results = [AclCreationResult(error_message="") for _ in request.creations]
    try:
        access = _access(context)
        context.check_allowed(AclOperation.ALTER, AclResourceType.CLUSTER)
        _check_count(len(request.creations))
    except ApiError as error:
        _refuse(results, error)
        return CreateAclsResponse(results=results)
    wanted: dict[ResourcePattern, list[tuple[AccessControlEntry, AclCreationResult]]] = {}
    for creation, result in zip(request.creations, results, strict=True):
        try:
            resource, entry = _binding(creation)
            wanted.setdefault(resource, []).append((entry, result))
        except ApiError as error:
            _refuse([result], error)
        await context.node.slices.pause()
    for resource, additions in wanted.items():
        try:
            await _change(access, resource, _adding([entry for entry, _ in additions]))
        except ApiError as error:
            _refuse([result for _, result in additions], error)
        await context.node.slices.pause()
    return CreateAclsResponse(results=results)


def _binding(creation: AclCreation) -> AclBinding:
    binding = AclBinding(
        ResourcePattern(
            _member(AclResourceType, creation.resource_type),
            creation.resource_name,
            _member(PatternType, creation.resource_pattern_type),
        ),
        AccessControlEntry(
            creation.principal,
            creation.host,
            _member(AclOperation, creation.operation),
            _member(AclPermissionType, creation.permission_type),
        ),
    )
    problem = problem_of(binding)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)
    return binding


def _adding(additions: list[AccessControlEntry]) -> Callable[[Entries], Iterable[AccessControlEntry]]:
    return lambda before: [*before, *additions]


# --- deletion ---


async def handle_delete(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    """Delete what each filter matches; an entry that two match is deleted, and answered, once."""
    results = [DeleteAclsFilterResult(error_message=None) for _ in request.filters]
    try:
        access = _access(context)
        context.check_allowed(AclOperation.ALTER, AclResourceType.CLUSTER)
        _check_count(len(request.filters))
    except ApiError as error:
        _refuse(results, error)
        return DeleteAclsResponse(filter_results=results)
    for asked, result in zip(request.filters, results, strict=True):
        await context.node.slices.pause()
        try:
            await _delete(access, _filter(asked), result, context)
        except ApiError as error:
            _refuse([result], error)
    return DeleteAclsResponse(filter_results=results)


async def _delete(access: Access, wanted: AclBindingFilter, result: DeleteAclsFilterResult, context: Context) -> None:
    resources = [resource for resource in sorted(access.authorizer.resources()) if wanted.matches_resource(resource)]
    for resource in resources:
        await context.node.slices.pause()
        removed: list[AccessControlEntry] = []
        try:
            await _change(access, resource, _removing(wanted, removed))
            code, message = ErrorCode.NONE, None
        except ApiError as error:
            code, message = error.code, error.message
        result.matching_acls += [_deleted(resource, entry, code, message) for entry in removed]


def _removing(
    wanted: AclBindingFilter, removed: list[AccessControlEntry]
) -> Callable[[Entries], Iterable[AccessControlEntry]]:
    def remove(before: Entries) -> Iterable[AccessControlEntry]:
        removed[:] = [entry for entry in before if wanted.matches_entry(entry)]
        return [entry for entry in before if entry not in removed]

    return remove


def _deleted(
    resource: ResourcePattern, entry: AccessControlEntry, code: ErrorCode, message: str | None
) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=code,
        error_message=message,
        resource_type=resource.type,
        resource_name=resource.name,
        pattern_type=resource.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


# --- shared ---


def _access(context: Context) -> Access:
    if context.node.access is None:
        raise ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    return context.node.access


def _check_count(count: int) -> None:
    if count > CHANGES_MAX:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a request may change {CHANGES_MAX} ACLs, not {count}")


async def _change(
    access: Access, resource: ResourcePattern, change: Callable[[Entries], Iterable[AccessControlEntry]]
) -> None:
    with metadata_errors_translated():
        await access.change(resource, change)


def _filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclBindingFilter:
    return AclBindingFilter(
        _member(AclResourceType, asked.resource_type_filter),
        asked.resource_name_filter,
        _member(PatternType, asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        _member(AclOperation, asked.operation),
        _member(AclPermissionType, asked.permission_type),
    )


def _member(kind: type[Member], number: int) -> Member:
    try:
        return kind(number)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{number} is not a {kind.__name__}") from None


def _refuse(results: Iterable[AclCreationResult | DeleteAclsFilterResult], error: ApiError) -> None:
    for result in results:
        result.error_code, result.error_message = error.code, error.message or error.code.text
