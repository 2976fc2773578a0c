"""ApiVersions: the first request of almost every client; which APIs and versions the broker serves.

The response to an unknown version is UNSUPPORTED_VERSION with the list, in version 0; the client then retries. The
header of the response is therefore never flexible, whatever the version.

What the versions changed:

    1   adds the throttle time
    2   the broker responds at once, and the client waits for the throttle time
    3   first flexible version; the client names its software, the broker its features (KIP-511, KIP-584)
    4   features whose lowest version is 0 are no longer left out
    5   the client names the cluster and the broker that it expects here (KIP-1242)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message, api_key=ApiKey.API_VERSIONS, versions=(0, 5), flexible_from=3):
    client_software_name: str = string(since=3)
    client_software_version: str = string(since=3)
    cluster_id: str | None = string(None, since=5, null_since=5)  # null if not known
    node_id: int = int32(-1, since=5)  # -1 if not known


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(Message, api_key=ApiKey.API_VERSIONS, versions=(0, 5), flexible_from=3):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, since=3, tag=0)
    finalized_features_epoch: int = int64(-1, since=3, tag=1)  # -1 if there are none
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, since=3, tag=2)
    zk_migration_ready: bool = boolean(since=3, tag=3)
