"""Groups and their offsets: the coordinator whose keys are group ids, in `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.broker.coordinators.edge import CoordinatorEdge, EdgeParts
from tidelog.broker.topology.internal_topics import OFFSETS
from tidelog.config.entities import effective_group
from tidelog.metadata.entities import GROUPS
from tidelog.replication.partition import ACKS_ALL
from tidelog.wire.errors import ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.configuration.entity_settings import EntitySettings
    from tidelog.config import BrokerConfig
    from tidelog.config.entities import GroupConfig
    from tidelog.coordination import CoordinatorRuntime
    from tidelog.groups import GroupSettings, GroupShard
    from tidelog.groups.share.service import MemberTimes
    from tidelog.groups.streams.service import StreamsSettings
    from tidelog.replication.replica_manager import ReplicaManager
    from tidelog.security.authorizer import AclAuthorizer

_REFUSALS: Final = {
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
}
"""Beside those of the runtime: the error of a commit, or of a transaction's end, that the log rejects."""


def group_coordinator(
    parts: EdgeParts, authorizer: AclAuthorizer | None, entities: EntitySettings
) -> CoordinatorEdge[GroupShard]:
    """The coordinator of groups. `authorizer` says which topics a member's pattern may match."""

    def new_runtime(edge: CoordinatorEdge[GroupShard]) -> CoordinatorRuntime[GroupShard]:
        from tidelog.broker.coordinators.group_catalog import ImageCatalog
        from tidelog.coordination import Batching, CoordinatorRuntime
        from tidelog.groups import ConsumerTimeouts, GroupShard
        from tidelog.records.compression import Codec

        config, replica_manager = parts.settings.config, parts.replica_manager
        settings = _settings_of(config)
        streams_settings = _streams_settings(config)
        catalog = ImageCatalog(parts.image, authorizer)

        def timeouts_of(group_id: str) -> ConsumerTimeouts:
            """A group's own settings, or the broker's."""
            own = entities.overrides(GROUPS, group_id) if entities.has_any(GROUPS) else None
            if not own:
                return settings.consumer_timeouts
            config = effective_group(own, parts.settings.config)
            return ConsumerTimeouts(config.consumer_session_timeout_ms, config.consumer_heartbeat_interval_ms)

        def share_times_of(group_id: str) -> MemberTimes:
            return _share_times(effective_group(entities.overrides(GROUPS, group_id), parts.settings.config), config)

        def streams_settings_of(group_id: str) -> StreamsSettings:
            """A group's own settings, or the broker's."""
            own = entities.overrides(GROUPS, group_id) if entities.has_any(GROUPS) else None
            return _own_streams_settings(parts.settings.config, own) if own else streams_settings

        return CoordinatorRuntime(
            lambda partition: GroupShard(
                partition, settings, _new_id, catalog, timeouts_of, share_times_of, streams_settings_of
            ),
            edge.append,
            edge.await_commit,
            parts.clock,
            parts.timer,
            codec=Codec(config.offsets_topic_compression_codec),
            batching=Batching(
                lambda partition: _batch_bytes_max(replica_manager, partition),
                replica_manager.before_write,
                lambda partition: edge.lead(replica_manager.partition(OFFSETS.name, partition)),
            ),
            refusals=dict(_REFUSALS),
        )

    return CoordinatorEdge(OFFSETS, parts, new_runtime)


def _settings_of(config: BrokerConfig) -> GroupSettings:
    from tidelog.groups import ConsumerTimeouts, GroupSettings

    policy = config.group_consumer_migration_policy.lower()
    return GroupSettings(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        consumer_timeouts=ConsumerTimeouts(
            config.group_consumer_session_timeout_ms, config.group_consumer_heartbeat_interval_ms
        ),
        consumer_max_size=config.group_consumer_max_size,
        can_upgrade=policy in ("upgrade", "bidirectional"),
        can_downgrade=policy in ("downgrade", "bidirectional"),
    )


def _share_times(group: GroupConfig, config: BrokerConfig) -> MemberTimes:
    from tidelog.groups.share.service import MemberTimes

    return MemberTimes(
        session_timeout_ms=group.share_session_timeout_ms,
        heartbeat_interval_ms=group.share_heartbeat_interval_ms,
        size_max=config.group_share_max_size,
    )


def _streams_settings(config: BrokerConfig) -> StreamsSettings:
    from tidelog.groups.streams.service import StreamsSettings

    return StreamsSettings(
        session_timeout_ms=config.group_streams_session_timeout_ms,
        heartbeat_interval_ms=config.group_streams_heartbeat_interval_ms,
        size_max=config.group_streams_max_size,
        standby_count=config.group_streams_num_standby_replicas,
        initial_delay_ms=config.group_streams_initial_rebalance_delay_ms,
        assignment_interval_ms=config.group_streams_assignment_interval_ms,
    )


def _own_streams_settings(config: BrokerConfig, overrides: Mapping[str, str]) -> StreamsSettings:
    own = effective_group(overrides, config)
    return _streams_settings(config)._replace(
        session_timeout_ms=own.streams_session_timeout_ms,
        heartbeat_interval_ms=own.streams_heartbeat_interval_ms,
        standby_count=own.streams_num_standby_replicas,
        initial_delay_ms=own.streams_initial_rebalance_delay_ms,
        assignment_interval_ms=own.streams_assignment_interval_ms,
    )


def _batch_bytes_max(replica_manager: ReplicaManager, partition: int) -> int:
    """What the log of an offsets partition takes in one batch; raises ApiError if it takes none."""
    found = replica_manager.find(OFFSETS.name, partition) or replica_manager.partition(OFFSETS.name, partition)
    config = found.log.config
    if not found.is_leader or len(found.replica_set.isr) < config.min_insync_replicas:
        found.check_appendable(ACKS_ALL)
    return min(config.max_message_bytes, config.segment_bytes)


def _new_id() -> str:
    import uuid

    return str(uuid.uuid4())
