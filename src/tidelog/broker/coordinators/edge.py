"""What lies between a request and the shards of a coordinator: routing, loading, waiting for the commit, errors.

One `CoordinatorEdge` serves one internal topic. A request names a key (a group, a transactional id); the edge finds its
partition, lets the runtime of `coordination` decide, and gives the response now, or a `Reply` that has it once it is
committed. Partitions are loaded and dropped as this broker gains and loses their leadership. What is particular to one
kind of coordinator is in its `InternalTopic` and in the function that makes its runtime, which is called at the first
use: a broker without groups, or without transactions, does not import their cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tidelog.broker.coordinators.loading import ShardLoader
from tidelog.broker.coordinators.replies import Eventual, Reply, settled
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.configuration.current import CurrentSettings
    from tidelog.broker.runtime.background import BackgroundPool
    from tidelog.broker.runtime.slices import TimeSlices
    from tidelog.broker.topology.internal_topics import InternalTopic
    from tidelog.coordination import CoordinatorRuntime, Decision, Respond
    from tidelog.coordination.shard import Shard
    from tidelog.metadata.image import ClusterImage
    from tidelog.replication.partition import Partition
    from tidelog.replication.replica_manager import ReplicaManager
    from tidelog.timing import Clock, Timer

    ShardT = TypeVar("ShardT", bound=Shard)
else:
    ShardT = TypeVar("ShardT")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeParts:
    """The parts of a broker that its coordinators work with."""

    settings: CurrentSettings
    image: ClusterImage
    replica_manager: ReplicaManager
    clock: Clock
    timer: Timer
    slices: TimeSlices
    background: BackgroundPool
    wake: Callable[[], None]
    """Makes sure that the turn of the loop ends, and with it what was staged is written."""


class CoordinatorEdge(Generic[ShardT]):
    """The keys of one coordinator whose partitions this broker leads."""

    def __init__(
        self,
        topic: InternalTopic,
        parts: EdgeParts,
        new_runtime: Callable[[CoordinatorEdge[ShardT]], CoordinatorRuntime[ShardT]],
    ) -> None:
        self._topic = topic
        self._name = topic.name
        self._parts = parts
        self._image = parts.image
        self._wake = parts.wake
        self._new_runtime = new_runtime
        self.built: CoordinatorRuntime[ShardT] | None = None
        """The runtime; None before its first use."""
        self._loader: ShardLoader | None = None
        self._is_stopped = False
        # What the image said about the topic in this version of it.
        self._image_version = -1
        self._partition_count = 0
        self.waits_for_followers = False
        """Whether the decision of the last `execute` is answered later than in its own turn, by followers' leave."""

    @property
    def runtime(self) -> CoordinatorRuntime[ShardT]:
        """Made at its first use."""
        if self.built is None:
            self.built = self._new_runtime(self)
        return self.built

    def append(self, partition: int, batch: bytearray, on_committed: Callable[[ErrorCode, int], None]) -> int:
        """Append to the log of a partition, for the runtime; raises ApiError when the log rejects it."""
        timeout_ms = self._topic.commit_timeout_ms(self._parts.settings.config)
        return self._parts.replica_manager.append(self._name, partition, batch, on_committed, timeout_ms)

    def await_commit(self, partition: int, on_committed: Callable[[ErrorCode, int], None]) -> None:
        """Wait until all that the log of a partition holds is committed, for the runtime."""
        timeout_ms = self._topic.commit_timeout_ms(self._parts.settings.config)
        self._parts.replica_manager.await_commit(self._name, partition, on_committed, timeout_ms)

    # --- where keys are ---

    def partition_of(self, key: str) -> int:
        """The partition of the internal topic that keeps a key."""
        if self._image.version != self._image_version:
            self._look_at_topic()
        return self._partition_for(key, self._partition_count)

    def _look_at_topic(self) -> None:
        """Take over what the image says about the internal topic."""
        image = self._image
        topic = image.topic(self._name)
        wanted = self._topic.partition_count(self._parts.settings.config)
        self._partition_count = wanted if topic is None else len(topic.partitions)
        self.waits_for_followers = topic is not None and len(topic.partitions[0].replicas) > 1
        self._image_version = image.version

    @cached_property
    def _partition_for(self) -> Callable[[str, int], int]:
        from tidelog.coordination import partition_for

        return partition_for

    def find(self, key: str) -> int:
        """The id of the broker that coordinates a key. Raises ApiError, also as long as there is no internal topic."""
        topic = self._image.topic(self._name)
        if topic is None or self._is_stopped:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is not available")
        leader_id = topic.partitions[self.partition_of(key)].leader_id
        if leader_id < 0:
            text = f"the partition of {self._topic.noun} {key} has no leader"
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)
        return leader_id

    # --- requests ---

    def execute(self, key: str, operation: Callable[[ShardT, int], Decision[Any]], respond: Respond) -> None:
        """Decide `operation(shard, now_ms)` for a key; `respond` gets the reply or an ApiError, now or later."""
        if self._is_stopped:
            respond(_stopped())
        else:
            (self.built or self.runtime).execute(self.partition_of(key), operation, respond)
            self._wake()  # what was set or staged is seen to at the end of the turn

    def call(
        self, key: str, operation: Callable[[ShardT, Respond, int], Decision[Any]], shape: Callable[[Any], T]
    ) -> Eventual[T]:
        """Decide `operation(shard, respond, now_ms)` for a key. `shape` makes the response of the reply or ApiError."""
        reply = Reply(shape)
        self.execute(key, lambda shard, now_ms: operation(shard, reply, now_ms), reply)
        return reply.result()

    async def ask(self, key: str, operation: Callable[[ShardT, Respond, int], Decision[Any]]) -> Any:
        """The outcome of `operation` for a key, be it a reply or an ApiError, once it is committed."""
        return await settled(self.call(key, operation, _as_it_is))

    def execute_in_all(self, operation: Callable[[ShardT, int], Decision[Any]]) -> None:
        """Decide `operation` in every shard that is loaded; nothing waits for it."""
        if self.built is not None:
            for partition in self.built.active_partitions():
                self.built.execute(partition, operation, None)

    def shard_of(self, key: str) -> ShardT:
        """The shard, for reading; raises ApiError if this broker does not have it."""
        if self._is_stopped:
            raise _stopped()
        return self.runtime.shard(self.partition_of(key))

    def shards(self) -> Iterator[ShardT]:
        """All that are loaded."""
        for partition in [] if self.built is None else self.built.active_partitions():
            yield self.runtime.shard(partition)

    @property
    def has_loads(self) -> bool:
        return self.built is not None and bool(self.built.loading_partitions())

    # --- partitions come and go ---

    def lead(self, partition: Partition) -> None:
        """This broker leads a partition from now on; if it is one of ours, its shard is loaded."""
        if partition.topic != self._name:
            return
        if self._loader is None:
            parts = self._parts
            buffer_bytes = self._topic.load_buffer_bytes(parts.settings.config)
            self._loader = ShardLoader(
                self.runtime, parts.replica_manager, parts.slices, parts.background, self._wake, buffer_bytes
            )
        self._loader.load(partition)

    def resign(self, topic: str, index: int) -> None:
        """This broker does not lead a partition any more; if it is one of ours, its shard is unloaded."""
        if topic == self._name and self.built is not None:
            self.built.unload(index)

    def stop(self) -> None:
        """Complete every waiting request with an error. The keys move to another broker, or load again."""
        self._is_stopped = True
        if self._loader is not None:
            self._loader.stop()
        if self.built is not None:
            self.built.unload_all()


def _stopped() -> ApiError:
    return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker is shutting down")


def _as_it_is(outcome: Any) -> Any:
    return outcome
