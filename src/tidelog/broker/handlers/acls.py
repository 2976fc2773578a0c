"""DescribeAcls, CreateAcls and DeleteAcls: there is no authorizer, as in a Kafka without `authorizer.class.name`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from tidelog.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from tidelog.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from tidelog.broker.context import Context

_CODE: Final = ErrorCode.SECURITY_DISABLED


def handle_describe(_request: DescribeAclsRequest, _context: Context) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=_CODE, error_message=_CODE.text)


def handle_create(request: CreateAclsRequest, _context: Context) -> CreateAclsResponse:
    refusal = AclCreationResult(error_code=_CODE, error_message=_CODE.text)
    return CreateAclsResponse(results=[refusal] * len(request.creations))


def handle_delete(request: DeleteAclsRequest, _context: Context) -> DeleteAclsResponse:
    refusal = DeleteAclsFilterResult(error_code=_CODE, error_message=_CODE.text)
    return DeleteAclsResponse(filter_results=[refusal] * len(request.filters))
