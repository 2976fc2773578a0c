"""DeleteAcls: remove the access control entries that match filters.

What the versions changed:

    1   adds the type of resource pattern (KIP-290)
    2   first flexible version
    3   adds the resource type user (KIP-373)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, string


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(null_since=0)
    pattern_type_filter: int = int8(3, since=1)  # 1: any, 2: whatever matches, 3: literal, 4: prefixed
    principal_filter: str | None = string(null_since=0)
    host_filter: str | None = string(null_since=0)
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(Message, api_key=ApiKey.DELETE_ACLS, versions=(0, 3), flexible_from=2):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(3, since=1)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Message, api_key=ApiKey.DELETE_ACLS, versions=(0, 3), flexible_from=2):
    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
