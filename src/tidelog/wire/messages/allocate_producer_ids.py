"""AllocateProducerIds: a broker asks the controller for its next block of producer ids (KIP-730)."""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, int16, int32, int64


class AllocateProducerIdsRequest(Message, api_key=ApiKey.ALLOCATE_PRODUCER_IDS, versions=(0, 0), flexible_from=0):
    broker_id: int = int32()
    broker_epoch: int = int64(-1)


class AllocateProducerIdsResponse(Message, api_key=ApiKey.ALLOCATE_PRODUCER_IDS, versions=(0, 0), flexible_from=0):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
