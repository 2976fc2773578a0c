"""PushTelemetry: the metrics of a client, as OpenTelemetry's `MetricsData` (KIP-714)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, blob, boolean, int8, int16, int32, uuid


class PushTelemetryRequest(Message, api_key=ApiKey.PUSH_TELEMETRY, versions=(0, 0), flexible_from=0):
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = blob()


class PushTelemetryResponse(Message, api_key=ApiKey.PUSH_TELEMETRY, versions=(0, 0), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
