"""What each API demands of a principal, as Kafka 3.9 does: the table that no route may be missing from.

`ON_CLUSTER` is checked by the dispatcher, for the whole request, before the handler is called: the response has room
for one error. `ON_RESOURCES` is checked by the handlers, for each resource that a request names. An operation on the
cluster stands there where Kafka answers it for each resource, or asks for it as an alternative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.security.acls import Operation, ResourceType
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.own_messages import OwnApiKey

_CLUSTER: Final = ResourceType.CLUSTER
_GROUP: Final = ResourceType.GROUP
_TOPIC: Final = ResourceType.TOPIC
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID

NOTHING: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        # Tokens are their owner's business; those of others are checked one by one.
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }
)

ON_CLUSTER: Final[Mapping[int, Operation]] = {
    ApiKey.LEADER_AND_ISR: Operation.CLUSTER_ACTION,
    ApiKey.STOP_REPLICA: Operation.CLUSTER_ACTION,
    ApiKey.UPDATE_METADATA: Operation.CLUSTER_ACTION,
    ApiKey.CONTROLLED_SHUTDOWN: Operation.CLUSTER_ACTION,
    ApiKey.ALTER_PARTITION: Operation.CLUSTER_ACTION,
    ApiKey.ALLOCATE_PRODUCER_IDS: Operation.CLUSTER_ACTION,
    ApiKey.DESCRIBE_ACLS: Operation.DESCRIBE,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Operation.ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Operation.DESCRIBE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: Operation.DESCRIBE,
    ApiKey.DESCRIBE_LOG_DIRS: Operation.DESCRIBE,
}

ON_RESOURCES: Final[Mapping[int, tuple[tuple[Operation, ResourceType], ...]]] = {
    ApiKey.PRODUCE: ((Operation.WRITE, _TOPIC), (Operation.WRITE, _TRANSACTIONAL_ID)),
    ApiKey.FETCH: ((Operation.READ, _TOPIC), (Operation.CLUSTER_ACTION, _CLUSTER)),
    ApiKey.LIST_OFFSETS: ((Operation.DESCRIBE, _TOPIC),),
    ApiKey.METADATA: ((Operation.DESCRIBE, _TOPIC), (Operation.CREATE, _TOPIC), (Operation.CREATE, _CLUSTER)),
    ApiKey.OFFSET_COMMIT: ((Operation.READ, _GROUP), (Operation.READ, _TOPIC)),
    ApiKey.OFFSET_FETCH: ((Operation.DESCRIBE, _GROUP), (Operation.DESCRIBE, _TOPIC)),
    ApiKey.FIND_COORDINATOR: ((Operation.DESCRIBE, _GROUP), (Operation.DESCRIBE, _TRANSACTIONAL_ID)),
    ApiKey.JOIN_GROUP: ((Operation.READ, _GROUP),),
    ApiKey.HEARTBEAT: ((Operation.READ, _GROUP),),
    ApiKey.LEAVE_GROUP: ((Operation.READ, _GROUP),),
    ApiKey.SYNC_GROUP: ((Operation.READ, _GROUP),),
    ApiKey.DESCRIBE_GROUPS: ((Operation.DESCRIBE, _GROUP),),
    ApiKey.LIST_GROUPS: ((Operation.DESCRIBE, _CLUSTER), (Operation.DESCRIBE, _GROUP)),
    ApiKey.DELETE_GROUPS: ((Operation.DELETE, _GROUP),),
    ApiKey.OFFSET_DELETE: ((Operation.DELETE, _GROUP), (Operation.READ, _TOPIC)),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ((Operation.READ, _GROUP),),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ((Operation.DESCRIBE, _GROUP),),
    ApiKey.CREATE_TOPICS: (
        (Operation.CREATE, _CLUSTER),
        (Operation.CREATE, _TOPIC),
        (Operation.DESCRIBE_CONFIGS, _TOPIC),
    ),
    ApiKey.DELETE_TOPICS: ((Operation.DELETE, _TOPIC), (Operation.DESCRIBE, _TOPIC)),
    ApiKey.CREATE_PARTITIONS: ((Operation.ALTER, _TOPIC),),
    ApiKey.DELETE_RECORDS: ((Operation.DELETE, _TOPIC),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ((Operation.DESCRIBE, _TOPIC),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ((Operation.DESCRIBE, _TOPIC), (Operation.CLUSTER_ACTION, _CLUSTER)),
    ApiKey.DESCRIBE_PRODUCERS: ((Operation.READ, _TOPIC),),
    ApiKey.INIT_PRODUCER_ID: (
        (Operation.WRITE, _TRANSACTIONAL_ID),
        (Operation.IDEMPOTENT_WRITE, _CLUSTER),
        (Operation.WRITE, _TOPIC),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        (Operation.WRITE, _TRANSACTIONAL_ID),
        (Operation.WRITE, _TOPIC),
        (Operation.CLUSTER_ACTION, _CLUSTER),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: ((Operation.WRITE, _TRANSACTIONAL_ID), (Operation.READ, _GROUP)),
    ApiKey.END_TXN: ((Operation.WRITE, _TRANSACTIONAL_ID),),
    ApiKey.TXN_OFFSET_COMMIT: (
        (Operation.WRITE, _TRANSACTIONAL_ID),
        (Operation.READ, _GROUP),
        (Operation.READ, _TOPIC),
    ),
    ApiKey.WRITE_TXN_MARKERS: ((Operation.ALTER, _CLUSTER), (Operation.CLUSTER_ACTION, _CLUSTER)),
    ApiKey.DESCRIBE_TRANSACTIONS: ((Operation.DESCRIBE, _TRANSACTIONAL_ID), (Operation.DESCRIBE, _TOPIC)),
    ApiKey.LIST_TRANSACTIONS: ((Operation.DESCRIBE, _TRANSACTIONAL_ID),),
    ApiKey.DESCRIBE_CONFIGS: ((Operation.DESCRIBE_CONFIGS, _TOPIC), (Operation.DESCRIBE_CONFIGS, _CLUSTER)),
    ApiKey.ALTER_CONFIGS: ((Operation.ALTER_CONFIGS, _TOPIC), (Operation.ALTER_CONFIGS, _CLUSTER)),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ((Operation.ALTER_CONFIGS, _TOPIC), (Operation.ALTER_CONFIGS, _CLUSTER)),
    ApiKey.DESCRIBE_CLUSTER: ((Operation.DESCRIBE, _CLUSTER),),
    ApiKey.CREATE_ACLS: ((Operation.ALTER, _CLUSTER),),
    ApiKey.DELETE_ACLS: ((Operation.ALTER, _CLUSTER),),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ((Operation.ALTER, _CLUSTER),),
    ApiKey.ELECT_LEADERS: ((Operation.ALTER, _CLUSTER),),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ((Operation.DESCRIBE_CONFIGS, _CLUSTER),),
    ApiKey.ALTER_CLIENT_QUOTAS: ((Operation.ALTER_CONFIGS, _CLUSTER),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ((Operation.ALTER, _CLUSTER),),
    ApiKey.CREATE_DELEGATION_TOKEN: ((Operation.CREATE_TOKENS, ResourceType.USER),),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
        (Operation.DESCRIBE_TOKENS, ResourceType.USER),
    ),
    OwnApiKey.COMPACT_TOPICS: ((Operation.ALTER, _TOPIC),),
}
