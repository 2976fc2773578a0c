"""GetTelemetrySubscriptions: which metrics a client is asked to push (KIP-714)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, array, boolean, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(
    Message, api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), flexible_from=0
):
    client_instance_id: bytes = uuid()  # zeroes until the broker has given the client one


class GetTelemetrySubscriptionsResponse(
    Message, api_key=ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), flexible_from=0
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)  # prefixes of names; none: send nothing, one that is "*": everything
