"""The group coordinator's edge: between handlers, the cores of `groups` and `coordination`, and the offsets topic.

Handlers call it with an operation for a group; it finds the shard, lets the runtime decide, and gives the reply now or
as a future. The cores are imported at their first use: a broker without groups starts sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidelog.broker.coordinators import Reply, ShardLoader
from tidelog.broker.internal_topics import internal_overrides
from tidelog.replication.partition import ACKS_ALL
from tidelog.timing import Timer
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.coordination import CoordinatorRuntime, Decision, Respond
    from tidelog.groups import GroupShard
    from tidelog.network.connection import Slot
    from tidelog.replication.partition import Partition

OFFSETS_TOPIC: Final = "__consumer_offsets"
_REFUSALS: Final = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}
"""Beside those of the runtime: the error of a commit, or of a transaction's end, that the log rejects."""

T = TypeVar("T")
Operation = Callable[["GroupShard", "Respond", int], "Decision[Any]"]


class GroupCoordinator:
    """The groups whose offsets partitions this broker leads."""

    def __init__(self, node: Node, timer: Timer) -> None:
        self._node = node
        self._timer = timer
        self._built: CoordinatorRuntime[GroupShard] | None = None
        self._loader: ShardLoader | None = None
        self._is_stopped = False
        # What the image said about the offsets topic in this version of it.
        self._image_version = -1
        self._partition_count = 0
        self.waits_for_followers = False
        """Whether the decision of the last `execute` is answered later than in its own turn, by followers' leave."""

    @property
    def runtime(self) -> CoordinatorRuntime[GroupShard]:
        """Made at its first use; transactions write their markers into offsets partitions through it."""
        if self._built is None:
            self._built = self._build()
        return self._built

    def _build(self) -> CoordinatorRuntime[GroupShard]:
        from tidelog.broker.group_catalog import ImageCatalog
        from tidelog.coordination import Batching, CoordinatorRuntime
        from tidelog.groups import GroupSettings, GroupShard
        from tidelog.records.compression import Codec

        config = self._node.config
        policy = config.group_consumer_migration_policy.lower()
        settings = GroupSettings(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            consumer_max_size=config.group_consumer_max_size,
            can_upgrade=policy in ("upgrade", "bidirectional"),
            can_downgrade=policy in ("downgrade", "bidirectional"),
        )
        access = self._node.access
        catalog = ImageCatalog(self._node.image, None if access is None else access.authorizer)
        return CoordinatorRuntime(
            lambda partition: GroupShard(partition, settings, _new_id, catalog),
            self._append,
            self._await_commit,
            self._node.clock,
            self._timer,
            codec=Codec(config.offsets_topic_compression_codec),
            batching=Batching(self._batch_bytes_max, self._node.replica_manager.before_write, self._reload),
            refusals=dict(_REFUSALS),
        )

    def _append(self, partition: int, batch: bytearray, on_committed: Callable[[ErrorCode, int], None]) -> int:
        timeout_ms = self._node.config.offsets_commit_timeout_ms
        return self._node.replica_manager.append(OFFSETS_TOPIC, partition, batch, on_committed, timeout_ms)

    def _await_commit(self, partition: int, on_committed: Callable[[ErrorCode, int], None]) -> None:
        timeout_ms = self._node.config.offsets_commit_timeout_ms
        self._node.replica_manager.await_commit(OFFSETS_TOPIC, partition, on_committed, timeout_ms)

    def _batch_bytes_max(self, partition: int) -> int:
        """What the log of an offsets partition takes in one batch; raises ApiError if it takes none."""
        replica_manager = self._node.replica_manager
        found = replica_manager.find(OFFSETS_TOPIC, partition) or replica_manager.partition(OFFSETS_TOPIC, partition)
        config = found.log.config
        if not found.is_leader or len(found.replica_set.isr) < config.min_insync_replicas:
            found.check_appendable(ACKS_ALL)
        return min(config.max_message_bytes, config.segment_bytes)

    def _reload(self, partition: int) -> None:
        self.lead(self._node.replica_manager.partition(OFFSETS_TOPIC, partition))

    # --- where groups are ---

    def partition_of(self, group_id: str) -> int:
        if self._node.image.version != self._image_version:
            self._look_at_topic()
        return self._partition_for(group_id, self._partition_count)

    def _look_at_topic(self) -> None:
        """Take over what the image says about the offsets topic."""
        node = self._node
        topic = node.image.topic(OFFSETS_TOPIC)
        self._partition_count = node.config.offsets_topic_num_partitions if topic is None else len(topic.partitions)
        self.waits_for_followers = topic is not None and len(topic.partitions[0].replicas) > 1
        self._image_version = node.image.version

    @cached_property
    def _partition_for(self) -> Callable[[str, int], int]:
        from tidelog.coordination import partition_for

        return partition_for

    async def create_topic(self) -> None:
        """Make the offsets topic, at its first use. Raises ApiError."""
        config = self._node.config
        await self._node.topic_changes.create_internal(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            internal_overrides(OFFSETS_TOPIC, config, config.offsets_topic_replication_factor),
        )

    def find(self, group_id: str) -> int:
        """The id of the broker that coordinates a group. Raises ApiError, also as long as there is no offsets topic."""
        topic = self._node.image.topic(OFFSETS_TOPIC)
        if topic is None or self._is_stopped:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is not available")
        leader_id = topic.partitions[self.partition_of(group_id)].leader_id
        if leader_id < 0:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of group {group_id} has no leader")
        return leader_id

    # --- requests ---

    def execute(self, group_id: str, operation: Callable[[GroupShard, int], Decision[Any]], respond: Respond) -> None:
        """Decide `operation(shard, now_ms)` for a group; `respond` gets the reply or an ApiError, now or later."""
        if self._is_stopped:
            respond(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is shutting down"))
        else:
            (self._built or self.runtime).execute(self.partition_of(group_id), operation, respond)
            self._node.socket_server.wake()  # what was set or staged is seen to at the end of the turn

    def call(self, group_id: str, operation: Operation, shape: Callable[[Any], T], slot: Slot | None = None) -> T:
        """Decide `operation(shard, respond, now_ms)` for a group. `shape` makes the response of the reply or ApiError.

        Returns the response, or a future of it (which the annotation leaves out, as handlers return either). A request
        that has to wait gives up its place in the request channel: JoinGroup may wait for minutes.
        """
        reply = Reply(shape)
        self.execute(group_id, lambda shard, now_ms: operation(shard, reply, now_ms), reply)
        if slot is not None and not reply.is_there:
            slot.park()
        result: T = reply.result()
        return result

    async def ask(self, group_id: str, operation: Operation) -> Any:
        """The outcome of `operation` for a group, be it a reply or an ApiError, once it is committed."""
        found: Any = self.call(group_id, operation, _as_it_is)
        return await found if isinstance(found, Reply) else found

    def shard_of(self, group_id: str) -> GroupShard:
        """The shard, for reading; raises ApiError if this broker does not have it."""
        return self.runtime.shard(self.partition_of(group_id))

    def shards(self) -> Iterator[GroupShard]:
        """All that are loaded."""
        for partition in [] if self._built is None else self._built.active_partitions():
            yield self.runtime.shard(partition)

    @property
    def has_loads(self) -> bool:
        return self._built is not None and bool(self._built.loading_partitions())

    def forget_topics(self, names: Collection[str]) -> None:
        """Topics were deleted: their offsets go, partition by partition of the offsets topic."""
        if self._built is None:
            return
        for partition in self.runtime.active_partitions():
            self.runtime.execute(partition, lambda shard, now_ms: shard.forget_topics(names, now_ms), None)

    # --- loading ---

    def lead(self, partition: Partition) -> None:
        """This broker leads a partition from now on; if it is one of ours, its groups are loaded."""
        if partition.topic != OFFSETS_TOPIC:
            return
        if self._loader is None:
            self._loader = ShardLoader(self._node, self.runtime, self._node.config.offsets_load_buffer_size)
        self._loader.load(partition)

    def resign(self, topic: str, index: int) -> None:
        """This broker does not lead a partition any more; if it is one of ours, its groups are unloaded."""
        if topic == OFFSETS_TOPIC and self._built is not None:
            self._built.unload(index)

    def stop(self) -> None:
        """Complete every waiting request with an error. The groups move to another broker, or load again."""
        self._is_stopped = True
        if self._loader is not None:
            self._loader.stop()
        if self._built is not None:
            self._built.unload_all()


def _as_it_is(outcome: Any) -> Any:
    return outcome


def _new_id() -> str:
    import uuid

    return str(uuid.uuid4())
