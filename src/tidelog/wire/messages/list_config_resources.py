"""ListConfigResources: what has settings of its own. Version 0 lists subscriptions to clients' metrics (KIP-714).

What the versions changed:

    1   adds the types of resources that are asked for, all of them if there are none (KIP-1142)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Message, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible_from=0):
    resource_types: list[int] = array(int8, since=1)


class ConfigResource(Struct):
    resource_name: str = string()
    resource_type: int = int8(16, since=1)


class ListConfigResourcesResponse(Message, api_key=ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
