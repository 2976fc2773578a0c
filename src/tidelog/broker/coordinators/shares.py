"""Share groups on this broker: the coordinator of their state, and the partitions that it leads for them (KIP-932).

Whether share groups are served is decided here, and which settings a group has. The rest is loaded at the first use: a
broker without share groups does not import it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from tidelog.broker.coordinators.edge import CoordinatorEdge, EdgeParts
from tidelog.broker.topology.internal_topics import SHARE_STATE
from tidelog.metadata.features import DEAD_LETTERS_FROM, SHARE_VERSION
from tidelog.storage.types import StartOffsetReason
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.configuration.features import ClusterFeatures
    from tidelog.broker.coordinators.share_partitions import ShareGroupRules, SharePartitions
    from tidelog.broker.coordinators.share_states import ShareStates
    from tidelog.broker.topology.topology import Topology
    from tidelog.config import BrokerConfig
    from tidelog.coordination import CoordinatorRuntime
    from tidelog.metadata.image import ClusterImage
    from tidelog.network.connection import Connection
    from tidelog.replication.partition import Partition
    from tidelog.sharing.state import ShareStateShard

_RULES_MAX: Final = 10_000
"""So many groups have their rules kept; they are made again when they are needed."""


def share_state_coordinator(parts: EdgeParts) -> CoordinatorEdge[ShareStateShard]:
    """The coordinator of the states that this broker keeps."""

    def new_runtime(edge: CoordinatorEdge[ShareStateShard]) -> CoordinatorRuntime[ShareStateShard]:
        from tidelog.coordination import CoordinatorRuntime
        from tidelog.records.compression import Codec
        from tidelog.sharing.state import ShareStateSettings, ShareStateShard

        config = parts.settings.config
        settings = ShareStateSettings(
            updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
            collect_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
        )

        def new_shard(index: int) -> ShareStateShard:
            log = _StateLog(parts.replica_manager.partition(SHARE_STATE.name, index), parts.image)
            return ShareStateShard(index, settings, log)

        return CoordinatorRuntime(
            new_shard,
            edge.append,
            edge.await_commit,
            parts.clock,
            parts.timer,
            codec=Codec(config.share_coordinator_state_topic_compression_codec),
        )

    return CoordinatorEdge(SHARE_STATE, parts, new_runtime)


class _StateLog:
    """The log of a shard. Not safe against another leader: the shard is dropped with the leadership."""

    def __init__(self, partition: Partition, image: ClusterImage) -> None:
        self._partition = partition
        self._image = image

    def end_offset(self) -> int:
        return self._partition.log.log_end_offset

    def delete_before(self, offset: int) -> None:
        log = self._partition.log
        log.maybe_increment_log_start_offset(min(offset, log.high_watermark), StartOffsetReason.SEGMENT_DELETION)

    def has_topic(self, topic_id: bytes) -> bool:
        return self._image.topic_by_id(topic_id) is not None


class Shares:
    """The parts of a broker that serve share groups."""

    def __init__(
        self,
        broker_id: int,
        parts: EdgeParts,
        topology: Topology,
        features: ClusterFeatures,
        overrides_of: Callable[[str], Mapping[str, str]],
        topic_overrides: Callable[[str], Awaitable[Mapping[str, str]]],
    ) -> None:
        """`overrides_of` has the settings that a group has for itself, `topic_overrides` those of a topic."""
        self._features = features
        self.edge = share_state_coordinator(parts)
        self._broker_id = broker_id
        self._parts = parts
        self._topology = topology
        self._overrides_of = overrides_of
        self._topic_overrides = topic_overrides
        self._partitions: SharePartitions | None = None
        self._rules: dict[str, tuple[BrokerConfig, Mapping[str, str], int, ShareGroupRules]] = {}
        """The rules of groups, with the settings of the broker and of the group and the level that they follow from."""

    def check_served(self) -> None:
        """Raise UNSUPPORTED_VERSION where share groups are switched off."""
        if self._features.level(SHARE_VERSION) < 1:
            text = f"{SHARE_VERSION} is at level 0: the cluster has no share groups (tidelog features upgrade)"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)

    @cached_property
    def states(self) -> ShareStates:
        """The states of all share partitions, wherever they are kept."""
        from tidelog.broker.coordinators.share_states import ShareStates

        return ShareStates(self._broker_id, self.edge, self._parts.image, self._topology, self._parts.wake)

    @property
    def partitions(self) -> SharePartitions:
        """The share partitions that this broker leads."""
        if self._partitions is None:
            from tidelog.broker.coordinators.dead_letters import DeadLetters
            from tidelog.broker.coordinators.share_partitions import SharePartitions

            letters = DeadLetters(self._broker_id, self._parts, self._topology, self._topic_overrides)
            self._partitions = SharePartitions(self._parts, self.states, letters, self.rules_of)
        return self._partitions

    @property
    def built(self) -> SharePartitions | None:
        """The same, None before the first use."""
        return self._partitions

    def rules_of(self, group_id: str) -> ShareGroupRules:
        """The settings that hold for a group now."""
        config, overrides = self._parts.settings.config, self._overrides_of(group_id)
        level = self._features.level(SHARE_VERSION)
        known = self._rules.get(group_id)
        if known is not None and known[0] is config and known[1] is overrides and known[2] == level:
            return known[3]
        from tidelog.broker.coordinators.share_rules import rules_of

        if len(self._rules) >= _RULES_MAX:
            self._rules.clear()
        rules = rules_of(config, overrides, may_have_dead_letters=level >= DEAD_LETTERS_FROM)
        self._rules[group_id] = config, overrides, level, rules
        return rules

    # --- partitions and connections come and go ---

    def lead(self, partition: Partition) -> None:
        self.edge.lead(partition)

    def resign(self, topic: str, index: int) -> None:
        self.edge.resign(topic, index)
        if self._partitions is not None:
            self._partitions.resign(topic, index)

    def connection_closed(self, connection: Connection) -> None:
        if self._partitions is not None:
            self._partitions.sessions.connection_closed(connection)

    async def close(self) -> None:
        """Complete every waiting request with an error."""
        if self._partitions is not None:
            await self._partitions.close()
        self.edge.stop()
