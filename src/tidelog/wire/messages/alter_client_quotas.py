"""AlterClientQuotas: set and remove quotas of users, client ids and addresses (KIP-546).

Kafka calls the entries of the response `EntryData` as well; here they are `EntryDataResponse`.

What the versions changed:

    1   first flexible version
"""

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.schema import Message, Struct, array, boolean, float64, int16, int32, string


class EntityData(Struct):
    entity_type: str = string()
    entity_name: str | None = string(null_since=0)  # null for the default


class OpData(Struct):
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class EntryData(Struct):
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


class AlterClientQuotasRequest(Message, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_from=1):
    entries: list[EntryData] = array(EntryData)
    validate_only: bool = boolean()


class EntryDataResponse(Struct):
    error_code: int = int16()
    error_message: str | None = string(null_since=0)
    entity: list[EntityData] = array(EntityData)


class AlterClientQuotasResponse(Message, api_key=ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_from=1):
    throttle_time_ms: int = int32()
    entries: list[EntryDataResponse] = array(EntryDataResponse)
