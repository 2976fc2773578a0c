"""DescribeConfigs: the settings of topics and brokers, with where each value comes from.

What the versions changed:

    0   the response says only whether a value is the default
    1   the source replaces that; adds synonyms, if asked for (KIP-226)
    2   the broker responds at once, and the client waits for the throttle time
    3   adds types, and documentation if asked for (KIP-569)
    4   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsResource(Struct):
    resource_type: int = int8()  # 2: topic, 4: broker, 8: broker logger
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, null_since=0)  # null for all


class DescribeConfigsRequest(Message, api_key=ApiKey.DESCRIBE_CONFIGS, versions=(0, 4), flexible_from=4):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(since=1)
    include_documentation: bool = boolean(since=3)


class DescribeConfigsSynonym(Struct):
    name: str = string()
    value: str | None = string(null_since=0)
    source: int = int8()  # as `config_source` below


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = string(null_since=0)
    read_only: bool = boolean()
    is_default: bool = boolean(until=0)
    # 1: topic, 2: broker, 3: all brokers, 4: server.properties, 5: default, 6: broker logger.
    config_source: int = int8(-1, since=1)
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, since=1)
    # 1: boolean, 2: string, 3: int, 4: short, 5: long, 6: double, 7: list, 8: class, 9: password.
    config_type: int = int8(since=3)
    documentation: str | None = string(since=3, null_since=3)


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Message, api_key=ApiKey.DESCRIBE_CONFIGS, versions=(0, 4), flexible_from=4):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
