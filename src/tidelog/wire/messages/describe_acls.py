"""DescribeAcls: the access control entries that match a filter.

What the versions changed:

    1   adds the type of resource pattern (KIP-290)
    2   first flexible version
    3   adds the resource type user (KIP-373)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, string


class DescribeAclsRequest(Message, api_key=ApiKey.DESCRIBE_ACLS, versions=(0, 3), flexible_from=2):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(null_since=0)
    pattern_type_filter: int = int8(3, since=1)  # 1: any, 2: whatever matches, 3: literal, 4: prefixed
    principal_filter: str | None = string(null_since=0)
    host_filter: str | None = string(null_since=0)
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Struct):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(3, since=1)
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Message, api_key=ApiKey.DESCRIBE_ACLS, versions=(0, 3), flexible_from=2):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
