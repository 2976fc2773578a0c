"""CreateAcls: add access control entries.

What the versions changed:

    1   adds the type of resource pattern (KIP-290)
    2   first flexible version
    3   adds the resource type user (KIP-373)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, string


class AclCreation(Struct):
    resource_type: int = int8()  # 2: topic, 3: group, 4: cluster, 5: transactional id, 6: token, 7: user
    resource_name: str = string()
    resource_pattern_type: int = int8(3, since=1)  # 3: literal, 4: prefixed
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()  # 2: deny, 3: allow


class CreateAclsRequest(Message, api_key=ApiKey.CREATE_ACLS, versions=(0, 3), flexible_from=2):
    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(null_since=0)


class CreateAclsResponse(Message, api_key=ApiKey.CREATE_ACLS, versions=(0, 3), flexible_from=2):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
