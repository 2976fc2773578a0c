"""AlterConfigs: replace all settings of topics and brokers; settings that are not named return to their defaults.

What the versions changed:

    1   the broker responds at once, and the client waits for the throttle time
    2   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    name: str = string()
    value: str | None = string(null_since=0)


class AlterConfigsResource(Struct):
    resource_type: int = int8()  # 2: topic, 4: broker, 8: broker logger
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(Message, api_key=ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible_from=2):
    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(Message, api_key=ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible_from=2):
    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
