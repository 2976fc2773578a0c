"""BrokerHeartbeat: a registered broker says that it is alive and how far it knows the metadata (KIP-631).

What the versions changed:

    1   adds the log directories that failed (KIP-858)
    2   adds the log directories that get no new replicas
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, array, boolean, int16, int32, int64, uuid


class BrokerHeartbeatRequest(Message, api_key=ApiKey.BROKER_HEARTBEAT, versions=(0, 2), flexible_from=0):
    broker_id: int = int32()
    broker_epoch: int = int64(-1)
    current_metadata_offset: int = int64()
    want_fence: bool = boolean()
    want_shut_down: bool = boolean()
    offline_log_dirs: list[bytes] = array(uuid, since=1, tag=0)
    cordoned_log_dirs: list[bytes] | None = array(uuid, None, since=2, null_since=2, tag=1)


class BrokerHeartbeatResponse(Message, api_key=ApiKey.BROKER_HEARTBEAT, versions=(0, 2), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    is_caught_up: bool = boolean()
    is_fenced: bool = boolean(True)
    should_shut_down: bool = boolean()
