"""The handler table: one row per API; a module has one handler, or those of a few APIs that belong together.

A handler translates: it authorizes, asks parts of the node for what the request wants, and shapes the reply. Decoding,
versions, errors and order are dealt with once, around the table, by the dispatcher.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tidelog.broker.requests.routes import Route, route_table, versions
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.own_messages import OwnApiKey

TELEMETRY: Final = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})
"""Served where `metrics.listeners` is set."""


def broker_handlers(apis: Collection[ApiKey]) -> Mapping[int, Route]:
    """Requests between brokers, as far as a topology has them."""
    routes = (
        Route(ApiKey.LEADER_AND_ISR, versions(0, 7), "between_brokers"),
        Route(ApiKey.STOP_REPLICA, versions(0, 4), "between_brokers"),
        Route(ApiKey.UPDATE_METADATA, versions(0, 8), "between_brokers"),
        Route(ApiKey.CONTROLLED_SHUTDOWN, versions(0, 3), "between_brokers"),
        Route(ApiKey.ALTER_PARTITION, versions(0, 3), "between_brokers"),
        Route(ApiKey.ALLOCATE_PRODUCER_IDS, versions(0, 0), "between_brokers"),
    )
    return route_table(route for route in routes if route.api_key in apis)


def forwarded_handlers(apis: Collection[ApiKey]) -> Mapping[int, Route]:
    """Requests that a controller which is no broker carries out, in the versions that Kafka's controllers have."""
    routes = (
        Route(ApiKey.CREATE_TOPICS, versions(2, 7), "forwarding"),
        Route(ApiKey.DELETE_TOPICS, versions(1, 6), "forwarding"),
        Route(ApiKey.CREATE_PARTITIONS, versions(0, 3), "forwarding"),
        Route(ApiKey.ALTER_CONFIGS, versions(0, 2), "forwarding"),
        Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions(0, 1), "forwarding:handle_incremental"),
        Route(ApiKey.CREATE_ACLS, versions(1, 3), "forwarding"),
        Route(ApiKey.DELETE_ACLS, versions(1, 3), "forwarding"),
        Route(ApiKey.ELECT_LEADERS, versions(0, 2), "forwarding"),
        Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions(0, 1), "forwarding"),
        Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions(0, 0), "forwarding"),
        Route(ApiKey.ALTER_CLIENT_QUOTAS, versions(0, 1), "forwarding"),
        Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions(0, 0), "forwarding"),
        Route(ApiKey.UPDATE_FEATURES, versions(0, 2), "forwarding"),
        Route(ApiKey.CREATE_DELEGATION_TOKEN, versions(1, 3), "forwarding"),
        Route(ApiKey.RENEW_DELEGATION_TOKEN, versions(1, 2), "forwarding"),
        Route(ApiKey.EXPIRE_DELEGATION_TOKEN, versions(1, 2), "forwarding"),
        Route(ApiKey.DESCRIBE_QUORUM, versions(0, 2), "forwarding"),
        Route(ApiKey.UNREGISTER_BROKER, versions(0, 0), "forwarding"),
    )
    return route_table(route for route in routes if route.api_key in apis)


def handlers() -> Mapping[int, Route]:
    """A fresh table; each broker has its own, as routes remember what they loaded."""
    return route_table(
        (
            Route(ApiKey.PRODUCE, versions(0, 13), "produce"),
            Route(ApiKey.FETCH, versions(0, 18), "fetch"),
            Route(ApiKey.LIST_OFFSETS, versions(0, 11), "list_offsets"),
            Route(ApiKey.METADATA, versions(0, 13), "metadata"),
            Route(ApiKey.OFFSET_COMMIT, versions(0, 10), "offset_commit"),
            Route(ApiKey.OFFSET_FETCH, versions(0, 10), "offset_fetch"),
            Route(ApiKey.FIND_COORDINATOR, versions(0, 6), "find_coordinator"),
            Route(ApiKey.JOIN_GROUP, versions(0, 9), "group_membership:handle_join"),
            Route(ApiKey.HEARTBEAT, versions(0, 4), "group_membership:handle_heartbeat"),
            Route(ApiKey.LEAVE_GROUP, versions(0, 5), "group_membership:handle_leave"),
            Route(ApiKey.SYNC_GROUP, versions(0, 5), "group_membership:handle_sync"),
            Route(ApiKey.DESCRIBE_GROUPS, versions(0, 6), "group_admin:handle_describe"),
            Route(ApiKey.LIST_GROUPS, versions(0, 5), "group_admin:handle_list"),
            Route(ApiKey.SASL_HANDSHAKE, versions(0, 1), "sasl:handle_handshake"),
            Route(ApiKey.API_VERSIONS, versions(0, 5), "api_versions"),
            Route(ApiKey.CREATE_TOPICS, versions(0, 7), "create_topics"),
            Route(ApiKey.DELETE_TOPICS, versions(0, 6), "delete_topics"),
            Route(ApiKey.DELETE_RECORDS, versions(0, 2), "delete_records"),
            Route(ApiKey.INIT_PRODUCER_ID, versions(0, 5), "init_producer_id"),
            Route(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions(0, 4), "offset_for_leader_epoch"),
            Route(ApiKey.ADD_PARTITIONS_TO_TXN, versions(0, 5), "transaction_steps:handle_add_partitions"),
            Route(ApiKey.ADD_OFFSETS_TO_TXN, versions(0, 4), "transaction_steps:handle_add_offsets"),
            Route(ApiKey.END_TXN, versions(0, 5), "transaction_steps:handle_end"),
            Route(ApiKey.WRITE_TXN_MARKERS, versions(0, 2), "write_txn_markers"),
            Route(ApiKey.TXN_OFFSET_COMMIT, versions(0, 6), "txn_offset_commit"),
            Route(ApiKey.DESCRIBE_CONFIGS, versions(0, 4), "describe_configs"),
            Route(ApiKey.ALTER_CONFIGS, versions(0, 2), "alter_configs"),
            Route(ApiKey.DESCRIBE_ACLS, versions(0, 3), "acls:handle_describe"),
            Route(ApiKey.CREATE_ACLS, versions(0, 3), "acls:handle_create"),
            Route(ApiKey.DELETE_ACLS, versions(0, 3), "acls:handle_delete"),
            Route(ApiKey.ALTER_REPLICA_LOG_DIRS, versions(0, 2), "alter_replica_log_dirs"),
            Route(ApiKey.DESCRIBE_LOG_DIRS, versions(0, 5), "describe_log_dirs"),
            Route(ApiKey.SASL_AUTHENTICATE, versions(0, 2), "sasl:handle_authenticate"),
            Route(ApiKey.CREATE_PARTITIONS, versions(0, 3), "create_partitions"),
            Route(ApiKey.CREATE_DELEGATION_TOKEN, versions(0, 3), "delegation_tokens:handle_create"),
            Route(ApiKey.RENEW_DELEGATION_TOKEN, versions(0, 2), "delegation_tokens:handle_renew"),
            Route(ApiKey.EXPIRE_DELEGATION_TOKEN, versions(0, 2), "delegation_tokens:handle_expire"),
            Route(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions(0, 3), "delegation_tokens:handle_describe"),
            Route(ApiKey.DELETE_GROUPS, versions(0, 3), "group_admin:handle_delete"),
            Route(ApiKey.ELECT_LEADERS, versions(0, 2), "elect_leaders"),
            Route(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions(0, 1), "alter_configs:handle_incremental"),
            Route(ApiKey.OFFSET_DELETE, versions(0, 0), "group_admin:handle_delete_offsets"),
            Route(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions(0, 1), "partition_reassignments:handle_alter"),
            Route(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions(0, 0), "partition_reassignments:handle_list"),
            Route(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions(0, 1), "client_quotas:handle_describe"),
            Route(ApiKey.ALTER_CLIENT_QUOTAS, versions(0, 1), "client_quotas:handle_alter"),
            Route(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions(0, 0), "user_scram_credentials:handle_describe"),
            Route(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions(0, 0), "user_scram_credentials:handle_alter"),
            Route(ApiKey.UPDATE_FEATURES, versions(0, 2), "update_features"),
            Route(ApiKey.DESCRIBE_CLUSTER, versions(0, 2), "describe_cluster"),
            Route(ApiKey.DESCRIBE_PRODUCERS, versions(0, 0), "describe_producers"),
            Route(ApiKey.DESCRIBE_TRANSACTIONS, versions(0, 0), "describe_transactions"),
            Route(ApiKey.LIST_TRANSACTIONS, versions(0, 2), "list_transactions"),
            Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions(0, 1), "consumer_groups:handle_heartbeat"),
            Route(ApiKey.CONSUMER_GROUP_DESCRIBE, versions(0, 1), "consumer_groups:handle_describe"),
            Route(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions(0, 0), "describe_topic_partitions"),
            Route(ApiKey.LIST_CONFIG_RESOURCES, versions(0, 1), "list_config_resources"),
            Route(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions(0, 0), "telemetry:handle_get"),
            Route(ApiKey.PUSH_TELEMETRY, versions(0, 0), "telemetry:handle_push"),
            Route(ApiKey.SHARE_GROUP_HEARTBEAT, versions(1, 1), "share_groups:handle_heartbeat"),
            Route(ApiKey.SHARE_GROUP_DESCRIBE, versions(1, 1), "share_groups:handle_describe"),
            Route(ApiKey.SHARE_FETCH, versions(1, 2), "share_fetch:handle_fetch"),
            Route(ApiKey.SHARE_ACKNOWLEDGE, versions(1, 2), "share_fetch:handle_acknowledge"),
            Route(ApiKey.INITIALIZE_SHARE_GROUP_STATE, versions(0, 0), "share_states:handle_initialize"),
            Route(ApiKey.READ_SHARE_GROUP_STATE, versions(0, 0), "share_states:handle_read"),
            Route(ApiKey.WRITE_SHARE_GROUP_STATE, versions(0, 1), "share_states:handle_write"),
            Route(ApiKey.DELETE_SHARE_GROUP_STATE, versions(0, 0), "share_states:handle_delete"),
            Route(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, versions(0, 1), "share_states:handle_summary"),
            Route(ApiKey.STREAMS_GROUP_HEARTBEAT, versions(0, 1), "streams_groups:handle_heartbeat"),
            Route(ApiKey.STREAMS_GROUP_DESCRIBE, versions(0, 1), "streams_groups:handle_describe"),
            Route(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions(0, 1), "share_offsets:handle_describe"),
            Route(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions(0, 0), "share_offsets:handle_alter"),
            Route(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions(0, 0), "share_offsets:handle_delete"),
            Route(
                ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, versions(0, 0), "streams_groups:handle_description"
            ),
        )
    )


def own_handlers() -> Mapping[int, Route]:
    """APIs of Tidelog's own: served beside Kafka's, and left out of ApiVersions (`tidelog.wire.own_messages`)."""
    messages = "tidelog.wire.own_messages"
    return route_table(
        (
            Route(OwnApiKey.COMPACT_TOPICS, versions(0, 0), "compact_topics", messages),
            Route(OwnApiKey.LIST_DELAYED_RECORDS, versions(0, 0), "delayed_records:list_records", messages),
            Route(OwnApiKey.ALTER_DELAYED_RECORDS, versions(0, 0), "delayed_records:alter_records", messages),
        )
    )
