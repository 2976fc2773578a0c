"""The admin for programs without an event loop: the calls of `AsyncAdmin`, blocking, safe to share between threads.

with Admin(bootstrap_servers="localhost:9092") as admin:
    admin.create_topics([NewTopic("orders", partitions=6)])
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.faces import Face, blocking, called_there

if TYPE_CHECKING:
    from tidelog.client.aio.admin.admin import AdminOptions


class Admin(Face[AsyncAdmin]):
    """Administers a cluster. Settings are Kafka's, as a dict with dots or as keywords with underscores."""

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: "Unpack[AdminOptions]") -> None:
        """Reaches the cluster; raises BootstrapFailed when none of the bootstrap servers answers."""
        super().__init__(AsyncAdmin(config, **settings), "tidelog-admin")
        self._background.run_first(self._async.start())
        self._background.end_with(self, self._async.close)

    def close(self) -> None:
        """Close the connections."""
        if self._background.is_alive:
            self._background.run_last(self._async.close(), 0)

    metrics = called_there(AsyncAdmin.metrics)

    describe_cluster = blocking(AsyncAdmin.describe_cluster)

    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    describe_all_topics = blocking(AsyncAdmin.describe_all_topics)
    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)
    compact_topic = blocking(AsyncAdmin.compact_topic)

    list_delayed_records = blocking(AsyncAdmin.list_delayed_records)
    cancel_delayed_records = blocking(AsyncAdmin.cancel_delayed_records)
    reschedule_delayed_records = blocking(AsyncAdmin.reschedule_delayed_records)

    describe_configs = blocking(AsyncAdmin.describe_configs)
    incremental_alter_configs = blocking(AsyncAdmin.incremental_alter_configs)
    replace_configs = blocking(AsyncAdmin.replace_configs)

    create_delegation_token = blocking(AsyncAdmin.create_delegation_token)
    describe_delegation_tokens = blocking(AsyncAdmin.describe_delegation_tokens)
    renew_delegation_token = blocking(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = blocking(AsyncAdmin.expire_delegation_token)
    create_acls = blocking(AsyncAdmin.create_acls)
    describe_acls = blocking(AsyncAdmin.describe_acls)
    delete_acls = blocking(AsyncAdmin.delete_acls)
    describe_user_scram_credentials = blocking(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(AsyncAdmin.alter_user_scram_credentials)
    describe_features = blocking(AsyncAdmin.describe_features)
    update_features = blocking(AsyncAdmin.update_features)
    describe_client_quotas = blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = blocking(AsyncAdmin.alter_client_quotas)

    list_offsets = blocking(AsyncAdmin.list_offsets)
    delete_records = blocking(AsyncAdmin.delete_records)
    describe_producers = blocking(AsyncAdmin.describe_producers)
    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)
    alter_replica_log_dirs = blocking(AsyncAdmin.alter_replica_log_dirs)
    elect_leaders = blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = blocking(AsyncAdmin.list_partition_reassignments)

    list_groups = blocking(AsyncAdmin.list_groups)
    describe_groups = blocking(AsyncAdmin.describe_groups)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    list_consumer_group_offsets = blocking(AsyncAdmin.list_consumer_group_offsets)
    alter_consumer_group_offsets = blocking(AsyncAdmin.alter_consumer_group_offsets)
    delete_consumer_group_offsets = blocking(AsyncAdmin.delete_consumer_group_offsets)
    remove_members_from_group = blocking(AsyncAdmin.remove_members_from_group)
    describe_share_groups = blocking(AsyncAdmin.describe_share_groups)
    list_share_group_offsets = blocking(AsyncAdmin.list_share_group_offsets)
    alter_share_group_offsets = blocking(AsyncAdmin.alter_share_group_offsets)
    delete_share_group_offsets = blocking(AsyncAdmin.delete_share_group_offsets)

    list_transactions = blocking(AsyncAdmin.list_transactions)
    describe_transactions = blocking(AsyncAdmin.describe_transactions)
    abort_transaction = blocking(AsyncAdmin.abort_transaction)
    fence_producers = blocking(AsyncAdmin.fence_producers)
