"""UpdateFeatures: change the finalized versions of cluster features (KIP-584).

What the versions changed:

    1   the type of upgrade takes the place of `allow_downgrade`; adds `validate_only` (KIP-778)
    2   all features are updated or none, and the response has no result for each (KIP-1022)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, string


class FeatureUpdateKey(Struct):
    feature: str = string()
    max_version_level: int = int16()  # 0 to delete the feature
    allow_downgrade: bool = boolean(until=0)
    upgrade_type: int = int8(1, since=1)  # 1: upgrade only, 2: downgrade if lossless, 3: downgrade at any cost


class UpdateFeaturesRequest(Message, api_key=ApiKey.UPDATE_FEATURES, versions=(0, 2), flexible_from=0):
    timeout_ms: int = int32(60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(since=1)


class UpdatableFeatureResult(Struct):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(null_since=0)


class UpdateFeaturesResponse(Message, api_key=ApiKey.UPDATE_FEATURES, versions=(0, 2), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, until=1)
