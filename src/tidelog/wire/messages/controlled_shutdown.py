"""ControlledShutdown: a broker that wants to stop asks the controller to move its leaderships away.

What the versions changed:

    0   the request header has no client id
    1   the request header is like all others
    2   adds the broker epoch
    3   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, int16, int32, int64, string


class ControlledShutdownRequest(Message, api_key=ApiKey.CONTROLLED_SHUTDOWN, versions=(0, 3), flexible_from=3):
    broker_id: int = int32()
    broker_epoch: int = int64(-1, since=2)


class RemainingPartition(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Message, api_key=ApiKey.CONTROLLED_SHUTDOWN, versions=(0, 3), flexible_from=3):
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
