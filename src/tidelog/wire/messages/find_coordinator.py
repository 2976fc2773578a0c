"""FindCoordinator: the broker that coordinates a consumer group or a transactional id.

What the versions changed:

    1   adds the type of key (0 group, 1 transaction), the throttle time and an error message
    2   the broker responds at once, and the client waits for the throttle time
    3   first flexible version
    4   several keys in one request (KIP-699)
    5   errors that only abort the transaction are returned as TRANSACTION_ABORTABLE (KIP-890)
    6   share groups may be asked for: key type 2 (KIP-932)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(Message, api_key=ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible_from=3):
    key: str = string(until=3)
    key_type: int = int8(since=1)  # 0: group, 1: transactional id, 2: share group
    coordinator_keys: list[str] = array(string, since=4)


class Coordinator(Struct):
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(null_since=0)


class FindCoordinatorResponse(Message, api_key=ApiKey.FIND_COORDINATOR, versions=(0, 6), flexible_from=3):
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, null_since=1)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: list[Coordinator] = array(Coordinator, since=4)
