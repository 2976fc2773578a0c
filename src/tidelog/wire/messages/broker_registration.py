"""BrokerRegistration: a broker asks the controllers of a KRaft quorum to be one of the cluster's (KIP-631).

What the versions changed:

    1   adds whether the broker comes from a ZooKeeper cluster that is being migrated (KIP-866)
    2   adds the ids of its log directories (KIP-858)
    3   adds the epoch that it had until it was shut down in order (KIP-966)
    4   features may begin at level 0
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, int16, int32, int64, string, uint16, uuid


class Listener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class Feature(Struct):
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class BrokerRegistrationRequest(Message, api_key=ApiKey.BROKER_REGISTRATION, versions=(0, 4), flexible_from=0):
    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: bytes = uuid()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(None, null_since=0)
    is_migrating_zk_broker: bool = boolean(since=1)
    log_dirs: list[bytes] = array(uuid, since=2)
    previous_broker_epoch: int = int64(-1, since=3)


class BrokerRegistrationResponse(Message, api_key=ApiKey.BROKER_REGISTRATION, versions=(0, 4), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    broker_epoch: int = int64(-1)
