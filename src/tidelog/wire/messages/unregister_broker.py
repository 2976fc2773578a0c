"""UnregisterBroker: a broker that is gone for good is struck off the cluster (KIP-631)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, int16, int32, string


class UnregisterBrokerRequest(Message, api_key=ApiKey.UNREGISTER_BROKER, versions=(0, 0), flexible_from=0):
    broker_id: int = int32()


class UnregisterBrokerResponse(Message, api_key=ApiKey.UNREGISTER_BROKER, versions=(0, 0), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
