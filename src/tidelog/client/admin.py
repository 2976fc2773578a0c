"""The admin for programs without an event loop: the calls of `AsyncAdmin`, blocking, safe to share between threads.

with Admin(bootstrap_servers="localhost:9092") as admin:
    admin.create_topics([NewTopic("orders", partitions=6)])
"""

from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from tidelog.client.aio.admin.admin import AsyncAdmin
from tidelog.client.aio.background import BackgroundLoop
from tidelog.client.metrics import ClientMetrics

if TYPE_CHECKING:
    from tidelog.client.options import AdminOptions

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _blocking(
    method: Callable[Concatenate[AsyncAdmin, Arguments], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate["Admin", Arguments], Result]:
    """The blocking version of a method."""

    @wraps(method)
    def call(self: "Admin", /, *arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        return self._background.run(method(self._async, *arguments, **keywords))

    return call


class Admin:
    """Administers a cluster. Settings are Kafka's, as a dict with dots or as keywords with underscores."""

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: "Unpack[AdminOptions]") -> None:
        """Reaches the cluster; raises BootstrapFailed when none of the bootstrap servers answers."""
        self._async = AsyncAdmin(config, **settings)
        self._background = BackgroundLoop("tidelog-admin")
        try:
            self._background.run(self._async.start())
        except BaseException:
            self._background.close()
            raise
        self._background.end_with(self, self._async.close)

    def close(self) -> None:
        """Close the connections."""
        if self._background.is_alive:
            self._background.run_last(self._async.close(), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def metrics(self) -> ClientMetrics:
        """Metrics of this admin and its brokers; `as_dict()` returns them as for JSON."""
        return self._background.call(self._async.metrics)

    describe_cluster = _blocking(AsyncAdmin.describe_cluster)

    list_topics = _blocking(AsyncAdmin.list_topics)
    describe_topics = _blocking(AsyncAdmin.describe_topics)
    describe_all_topics = _blocking(AsyncAdmin.describe_all_topics)
    create_topics = _blocking(AsyncAdmin.create_topics)
    delete_topics = _blocking(AsyncAdmin.delete_topics)
    create_partitions = _blocking(AsyncAdmin.create_partitions)
    compact_topic = _blocking(AsyncAdmin.compact_topic)

    list_delayed_records = _blocking(AsyncAdmin.list_delayed_records)
    cancel_delayed_records = _blocking(AsyncAdmin.cancel_delayed_records)
    reschedule_delayed_records = _blocking(AsyncAdmin.reschedule_delayed_records)

    describe_configs = _blocking(AsyncAdmin.describe_configs)
    incremental_alter_configs = _blocking(AsyncAdmin.incremental_alter_configs)
    replace_configs = _blocking(AsyncAdmin.replace_configs)

    create_delegation_token = _blocking(AsyncAdmin.create_delegation_token)
    describe_delegation_tokens = _blocking(AsyncAdmin.describe_delegation_tokens)
    renew_delegation_token = _blocking(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = _blocking(AsyncAdmin.expire_delegation_token)
    create_acls = _blocking(AsyncAdmin.create_acls)
    describe_acls = _blocking(AsyncAdmin.describe_acls)
    delete_acls = _blocking(AsyncAdmin.delete_acls)
    describe_user_scram_credentials = _blocking(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = _blocking(AsyncAdmin.alter_user_scram_credentials)
    describe_features = _blocking(AsyncAdmin.describe_features)
    update_features = _blocking(AsyncAdmin.update_features)
    describe_client_quotas = _blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = _blocking(AsyncAdmin.alter_client_quotas)

    list_offsets = _blocking(AsyncAdmin.list_offsets)
    delete_records = _blocking(AsyncAdmin.delete_records)
    describe_producers = _blocking(AsyncAdmin.describe_producers)
    describe_log_dirs = _blocking(AsyncAdmin.describe_log_dirs)
    alter_replica_log_dirs = _blocking(AsyncAdmin.alter_replica_log_dirs)
    elect_leaders = _blocking(AsyncAdmin.elect_leaders)
    alter_partition_reassignments = _blocking(AsyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = _blocking(AsyncAdmin.list_partition_reassignments)

    list_groups = _blocking(AsyncAdmin.list_groups)
    describe_groups = _blocking(AsyncAdmin.describe_groups)
    delete_groups = _blocking(AsyncAdmin.delete_groups)
    list_consumer_group_offsets = _blocking(AsyncAdmin.list_consumer_group_offsets)
    alter_consumer_group_offsets = _blocking(AsyncAdmin.alter_consumer_group_offsets)
    delete_consumer_group_offsets = _blocking(AsyncAdmin.delete_consumer_group_offsets)
    remove_members_from_group = _blocking(AsyncAdmin.remove_members_from_group)

    list_transactions = _blocking(AsyncAdmin.list_transactions)
    describe_transactions = _blocking(AsyncAdmin.describe_transactions)
    abort_transaction = _blocking(AsyncAdmin.abort_transaction)
    fence_producers = _blocking(AsyncAdmin.fence_producers)
