"""What each API demands of a principal, as Kafka 3.9 does: the table that no route may be missing from.

`ON_CLUSTER` is checked by the dispatcher, for the whole request, before the handler is called: the response has room
for one error. `ON_RESOURCES` is checked by the handlers, for each resource that a request names. An operation on the
cluster stands there where Kafka answers it for each resource, or asks for it as an alternative.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.own_messages import OwnApiKey

_CLUSTER: Final = AclResourceType.CLUSTER
_GROUP: Final = AclResourceType.GROUP
_TOPIC: Final = AclResourceType.TOPIC
_TRANSACTIONAL_ID: Final = AclResourceType.TRANSACTIONAL_ID

NOTHING: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
        # Tokens are their owner's business; those of others are checked one by one.
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
    }
)

ON_CLUSTER: Final[Mapping[int, AclOperation]] = {
    ApiKey.LEADER_AND_ISR: AclOperation.CLUSTER_ACTION,
    ApiKey.STOP_REPLICA: AclOperation.CLUSTER_ACTION,
    ApiKey.UPDATE_METADATA: AclOperation.CLUSTER_ACTION,
    ApiKey.CONTROLLED_SHUTDOWN: AclOperation.CLUSTER_ACTION,
    ApiKey.ALTER_PARTITION: AclOperation.CLUSTER_ACTION,
    ApiKey.ALLOCATE_PRODUCER_IDS: AclOperation.CLUSTER_ACTION,
    ApiKey.DESCRIBE_ACLS: AclOperation.DESCRIBE,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: AclOperation.ALTER,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: AclOperation.DESCRIBE,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: AclOperation.DESCRIBE,
    ApiKey.DESCRIBE_LOG_DIRS: AclOperation.DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES: AclOperation.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_QUORUM: AclOperation.DESCRIBE,
    ApiKey.UNREGISTER_BROKER: AclOperation.ALTER,
}

ON_RESOURCES: Final[Mapping[int, tuple[tuple[AclOperation, AclResourceType], ...]]] = {
    ApiKey.PRODUCE: ((AclOperation.WRITE, _TOPIC), (AclOperation.WRITE, _TRANSACTIONAL_ID)),
    ApiKey.FETCH: ((AclOperation.READ, _TOPIC), (AclOperation.CLUSTER_ACTION, _CLUSTER)),
    ApiKey.LIST_OFFSETS: ((AclOperation.DESCRIBE, _TOPIC),),
    ApiKey.METADATA: ((AclOperation.DESCRIBE, _TOPIC), (AclOperation.CREATE, _TOPIC), (AclOperation.CREATE, _CLUSTER)),
    ApiKey.OFFSET_COMMIT: ((AclOperation.READ, _GROUP), (AclOperation.READ, _TOPIC)),
    ApiKey.OFFSET_FETCH: ((AclOperation.DESCRIBE, _GROUP), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.FIND_COORDINATOR: (
        (AclOperation.DESCRIBE, _GROUP),
        (AclOperation.DESCRIBE, _TRANSACTIONAL_ID),
        (AclOperation.CLUSTER_ACTION, _CLUSTER),
    ),
    ApiKey.JOIN_GROUP: ((AclOperation.READ, _GROUP),),
    ApiKey.HEARTBEAT: ((AclOperation.READ, _GROUP),),
    ApiKey.LEAVE_GROUP: ((AclOperation.READ, _GROUP),),
    ApiKey.SYNC_GROUP: ((AclOperation.READ, _GROUP),),
    ApiKey.DESCRIBE_GROUPS: ((AclOperation.DESCRIBE, _GROUP),),
    ApiKey.LIST_GROUPS: ((AclOperation.DESCRIBE, _CLUSTER), (AclOperation.DESCRIBE, _GROUP)),
    ApiKey.DELETE_GROUPS: ((AclOperation.DELETE, _GROUP),),
    ApiKey.OFFSET_DELETE: ((AclOperation.DELETE, _GROUP), (AclOperation.READ, _TOPIC)),
    # For topics as Kafka 4.0: the release before has no patterns, which are matched with every topic there is.
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ((AclOperation.READ, _GROUP), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ((AclOperation.DESCRIBE, _GROUP), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.SHARE_GROUP_HEARTBEAT: ((AclOperation.READ, _GROUP), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.SHARE_GROUP_DESCRIBE: ((AclOperation.DESCRIBE, _GROUP), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.SHARE_FETCH: ((AclOperation.READ, _GROUP), (AclOperation.READ, _TOPIC)),
    ApiKey.SHARE_ACKNOWLEDGE: ((AclOperation.READ, _GROUP), (AclOperation.READ, _TOPIC)),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (
        (AclOperation.READ, _GROUP),
        (AclOperation.DESCRIBE, _TOPIC),
        (AclOperation.CREATE, _CLUSTER),
        (AclOperation.CREATE, _TOPIC),
    ),
    ApiKey.STREAMS_GROUP_DESCRIBE: ((AclOperation.DESCRIBE, _GROUP), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: ((AclOperation.READ, _GROUP),),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ((AclOperation.DESCRIBE, _GROUP), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ((AclOperation.READ, _GROUP), (AclOperation.READ, _TOPIC)),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ((AclOperation.DELETE, _GROUP), (AclOperation.READ, _TOPIC)),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ((AclOperation.CLUSTER_ACTION, _CLUSTER),),
    ApiKey.READ_SHARE_GROUP_STATE: ((AclOperation.CLUSTER_ACTION, _CLUSTER),),
    ApiKey.WRITE_SHARE_GROUP_STATE: ((AclOperation.CLUSTER_ACTION, _CLUSTER),),
    ApiKey.DELETE_SHARE_GROUP_STATE: ((AclOperation.CLUSTER_ACTION, _CLUSTER),),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ((AclOperation.CLUSTER_ACTION, _CLUSTER),),
    ApiKey.CREATE_TOPICS: (
        (AclOperation.CREATE, _CLUSTER),
        (AclOperation.CREATE, _TOPIC),
        (AclOperation.DESCRIBE_CONFIGS, _TOPIC),
    ),
    ApiKey.DELETE_TOPICS: ((AclOperation.DELETE, _TOPIC), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.CREATE_PARTITIONS: ((AclOperation.ALTER, _TOPIC),),
    ApiKey.DELETE_RECORDS: ((AclOperation.DELETE, _TOPIC),),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ((AclOperation.DESCRIBE, _TOPIC),),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ((AclOperation.DESCRIBE, _TOPIC), (AclOperation.CLUSTER_ACTION, _CLUSTER)),
    ApiKey.DESCRIBE_PRODUCERS: ((AclOperation.READ, _TOPIC),),
    ApiKey.INIT_PRODUCER_ID: (
        (AclOperation.WRITE, _TRANSACTIONAL_ID),
        (AclOperation.IDEMPOTENT_WRITE, _CLUSTER),
        (AclOperation.WRITE, _TOPIC),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        (AclOperation.WRITE, _TRANSACTIONAL_ID),
        (AclOperation.WRITE, _TOPIC),
        (AclOperation.CLUSTER_ACTION, _CLUSTER),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: ((AclOperation.WRITE, _TRANSACTIONAL_ID), (AclOperation.READ, _GROUP)),
    ApiKey.END_TXN: ((AclOperation.WRITE, _TRANSACTIONAL_ID),),
    ApiKey.TXN_OFFSET_COMMIT: (
        (AclOperation.WRITE, _TRANSACTIONAL_ID),
        (AclOperation.READ, _GROUP),
        (AclOperation.READ, _TOPIC),
    ),
    ApiKey.WRITE_TXN_MARKERS: ((AclOperation.ALTER, _CLUSTER), (AclOperation.CLUSTER_ACTION, _CLUSTER)),
    ApiKey.DESCRIBE_TRANSACTIONS: ((AclOperation.DESCRIBE, _TRANSACTIONAL_ID), (AclOperation.DESCRIBE, _TOPIC)),
    ApiKey.LIST_TRANSACTIONS: ((AclOperation.DESCRIBE, _TRANSACTIONAL_ID),),
    ApiKey.DESCRIBE_CONFIGS: (
        (AclOperation.DESCRIBE_CONFIGS, _TOPIC),
        (AclOperation.DESCRIBE_CONFIGS, _GROUP),
        (AclOperation.DESCRIBE_CONFIGS, _CLUSTER),
    ),
    ApiKey.ALTER_CONFIGS: (
        (AclOperation.ALTER_CONFIGS, _TOPIC),
        (AclOperation.ALTER_CONFIGS, _GROUP),
        (AclOperation.ALTER_CONFIGS, _CLUSTER),
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (
        (AclOperation.ALTER_CONFIGS, _TOPIC),
        (AclOperation.ALTER_CONFIGS, _GROUP),
        (AclOperation.ALTER_CONFIGS, _CLUSTER),
    ),
    ApiKey.DESCRIBE_CLUSTER: ((AclOperation.DESCRIBE, _CLUSTER),),
    ApiKey.CREATE_ACLS: ((AclOperation.ALTER, _CLUSTER),),
    ApiKey.DELETE_ACLS: ((AclOperation.ALTER, _CLUSTER),),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ((AclOperation.ALTER, _CLUSTER),),
    ApiKey.ELECT_LEADERS: ((AclOperation.ALTER, _CLUSTER),),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ((AclOperation.DESCRIBE_CONFIGS, _CLUSTER),),
    ApiKey.ALTER_CLIENT_QUOTAS: ((AclOperation.ALTER_CONFIGS, _CLUSTER),),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ((AclOperation.ALTER, _CLUSTER),),
    ApiKey.UPDATE_FEATURES: ((AclOperation.ALTER, _CLUSTER),),
    ApiKey.CREATE_DELEGATION_TOKEN: ((AclOperation.CREATE_TOKENS, AclResourceType.USER),),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (
        (AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN),
        (AclOperation.DESCRIBE_TOKENS, AclResourceType.USER),
    ),
    OwnApiKey.COMPACT_TOPICS: ((AclOperation.ALTER, _TOPIC),),
    OwnApiKey.LIST_DELAYED_RECORDS: ((AclOperation.READ, _TOPIC),),
    OwnApiKey.ALTER_DELAYED_RECORDS: ((AclOperation.DELETE, _TOPIC), (AclOperation.WRITE, _TOPIC)),
}
