"""DescribeCluster: the cluster's id, controller and brokers (KIP-700).

What the versions changed:

    1   brokers or controllers may be asked for: endpoint type 1 or 2 (KIP-919)
    2   brokers that are fenced by a KRaft controller may be asked for as well (KIP-1073)
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeClusterRequest(Message, api_key=ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible_from=0):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8(1, since=1)  # 1: brokers, 2: controllers
    include_fenced_brokers: bool = boolean(since=2)


class DescribeClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(None, null_since=0)
    is_fenced: bool = boolean(since=2)


class DescribeClusterResponse(Message, api_key=ApiKey.DESCRIBE_CLUSTER, versions=(0, 2), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(None, null_since=0)
    endpoint_type: int = int8(1, since=1)
    cluster_id: str = string()
    controller_id: int = int32(-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(-0x80000000)  # a bit per operation; this default if not asked for
