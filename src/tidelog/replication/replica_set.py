"""The replicas of one partition as its leader manages them: the in-sync replicas, and the followers' progress.

The controller commits every change of the ISR. A leader proposes one (`IsrProposal`, sent as AlterPartition), and until
the answer comes it reckons with the larger of the two sets, the *maximal* ISR:

    proposal        committed ISR      maximal ISR        why
    none            {1, 2}             {1, 2}
    add 3           {1, 2}             {1, 2, 3}          the controller may have added 3: do not commit without it
    remove 2        {1, 2}             {1, 2}             the controller may not have removed 2, and may elect it

One proposal is open at a time. No log, no clock: offsets and times are arguments, and decisions are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.config.log_config import needed_in_sync
from tidelog.replication.follower_state import FollowerState
from tidelog.wire.errors import ErrorCode


class LeaderRecoveryState(IntEnum):
    """Whether a leader was elected from outside the ISR and still has to recover (KIP-704)."""

    RECOVERED = 0
    RECOVERING = 1


class LeaderAndIsr(NamedTuple):
    """What the controller decided about one partition."""

    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int = 0
    """The version of the partition's state node: grows with every change of leader or ISR."""
    controller_epoch: int = 0
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


class IsrProposal(NamedTuple):
    """A change of the ISR that the leader asks the controller for."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


class AlteredPartition(NamedTuple):
    """The controller's answer to a proposal."""

    leader_id: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


class ReplicaRules(NamedTuple):
    """What holds for all partitions of a broker."""

    lag_ms_max: int = 30_000
    """`replica.lag.time.max.ms`"""
    is_alive: Callable[[int], bool] = lambda _broker_id: True
    """Whether a broker is registered: the others cannot join an ISR."""


_REVERTED_BY: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller changed nothing: the committed ISR stays."""

_FINAL: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller has a newer state than this leader: its next LeaderAndIsr ends the proposal."""


SILENCE_MS_MAX: Final = 2_000
"""A follower that waits for records asks again after `replica.fetch.wait.max.ms`, half a second by default."""


class ReplicaSet:
    """The replicas of a partition. `followers` is empty unless this broker leads it and others have replicas."""

    __slots__ = (
        "adding_replicas",
        "followers",
        "isr",
        "leader_epoch_start_offset",
        "local_id",
        "maximal_isr",
        "partition_epoch",
        "pending",
        "recovery_state",
        "removing_replicas",
        "replicas",
        "rules",
    )

    def __init__(self, local_id: int, rules: ReplicaRules) -> None:
        self.local_id = local_id
        self.rules = rules
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        """The in-sync replicas that the controller has committed; empty on a follower, which is not informed."""
        self.maximal_isr: tuple[int, ...] = ()
        self.pending: IsrProposal | None = None
        self.followers: dict[int, FollowerState] = {}
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.partition_epoch = -1
        self.recovery_state = LeaderRecoveryState.RECOVERED
        self.leader_epoch_start_offset = -1
        """Where this leader's log ended when its epoch began; -1 on a follower."""

    # --- roles ---

    def lead(
        self, state: LeaderAndIsr, log_end_offset: int, now_ms: int, *, is_new_leader: bool, is_new_epoch: bool
    ) -> None:
        """This broker leads, with these replicas and this ISR; a proposal that was open is void."""
        self._assign(state)
        self._commit(state.isr)
        # A leader that could lead has recovered: there is nothing to recover from but its own log.
        self.recovery_state = LeaderRecoveryState.RECOVERED
        # At the end of a reassignment the controller first names the new replicas, and then removes the others from the
        # ISR. In between they can still be elected, so nothing is committed without them.
        followers = self.followers
        self.followers = {
            replica: followers.get(replica) or FollowerState()
            for replica in (*state.replicas, *state.isr)
            if replica != self.local_id
        }
        if is_new_epoch:
            self.leader_epoch_start_offset = log_end_offset
            for replica, follower in self.followers.items():
                follower.begin_epoch(
                    log_end_offset, now_ms, is_new_leader=is_new_leader, is_in_sync=replica in state.isr
                )

    def follow(self, state: LeaderAndIsr) -> None:
        """Another broker leads; the state of the followers is dropped."""
        self._assign(state)
        self._commit(())
        self.recovery_state = state.recovery_state
        self.followers = {}
        self.leader_epoch_start_offset = -1

    def _assign(self, state: LeaderAndIsr) -> None:
        self.replicas = state.replicas
        self.adding_replicas = state.adding_replicas
        self.removing_replicas = state.removing_replicas
        self.partition_epoch = state.partition_epoch

    def _commit(self, isr: Sequence[int]) -> None:
        self.isr = self.maximal_isr = tuple(isr)
        self.pending = None

    # --- what is committed ---

    def needed_in_sync(self, min_insync_replicas: int) -> int:
        """How many in-sync replicas acks=all needs."""
        return needed_in_sync(min_insync_replicas, len(self.replicas))

    def committed_end_offset(
        self, own_end_offset: int, log_end_offset: int, min_insync_replicas: int, now_ms: int
    ) -> int:
        """Up to where every replica of the maximal ISR has the log, which ends at `own_end_offset` on this one's disk.

        A replica that is caught up and may join the ISR counts, too: else the high watermark could run ahead of it as
        fast as it follows, and it would never join. Below `min.insync.replicas` nothing is committed (KIP-966): -1.
        """
        if len(self.isr) < self.needed_in_sync(min_insync_replicas):
            return -1
        committed = own_end_offset
        maximal_isr = self.maximal_isr
        rules = self.rules
        for replica, follower in self.followers.items():
            if follower.log_end_offset < committed and (
                replica in maximal_isr
                or (follower.is_caught_up(log_end_offset, now_ms, rules.lag_ms_max) and rules.is_alive(replica))
            ):
                committed = follower.log_end_offset
        return committed

    def low_watermark(self, own_start_offset: int) -> int:
        """The smallest log start offset of the replicas that are alive."""
        low = own_start_offset
        is_alive = self.rules.is_alive
        for replica, follower in self.followers.items():
            if follower.log_start_offset < low and is_alive(replica):
                low = follower.log_start_offset
        return low

    # --- proposals ---

    def propose_expansion(self, replica: int, leader_epoch: int, high_watermark: int) -> IsrProposal | None:
        """The proposal to add a follower, if it has caught up with what is committed and no proposal is open.

        It must also have everything from before this leader's epoch: the high watermark of a new leader may lag behind
        what the leader before had committed.
        """
        follower = self.followers.get(replica)
        if (
            follower is None
            or self.pending is not None
            or replica in self.isr
            or replica not in self.replicas
            or follower.log_end_offset < max(high_watermark, self.leader_epoch_start_offset)
            or not self.rules.is_alive(replica)
        ):
            return None
        return self._propose((*self.isr, replica), leader_epoch)

    def propose_shrinking(self, leader_epoch: int, log_end_offset: int, now_ms: int) -> IsrProposal | None:
        """The proposal to remove the followers that have not been caught up for `replica.lag.time.max.ms`."""
        if self.pending is not None:
            return None
        lag_ms_max = self.rules.lag_ms_max
        left = tuple(
            replica
            for replica in self.isr
            if replica == self.local_id
            or (
                (follower := self.followers.get(replica)) is not None
                and follower.is_caught_up(log_end_offset, now_ms, lag_ms_max)
            )
        )
        return None if left == self.isr else self._propose(left, leader_epoch)

    def may_be_replaced(self, now_ms: int) -> bool:
        """Whether this leader heard of none of its in-sync followers lately: another broker may lead by now."""
        others = [replica for replica in self.isr if replica != self.local_id]
        return bool(others) and not any(
            (follower := self.followers.get(replica)) is not None and now_ms - follower.last_fetch_ms <= SILENCE_MS_MAX
            for replica in others
        )

    def _propose(self, isr: tuple[int, ...], leader_epoch: int) -> IsrProposal:
        self.pending = IsrProposal(isr, leader_epoch, self.partition_epoch, self.recovery_state)
        self.maximal_isr = (*self.isr, *(replica for replica in isr if replica not in self.isr))
        return self.pending

    def accept(self, proposal: IsrProposal, altered: AlteredPartition, leader_epoch: int) -> bool:
        """The controller answered a proposal; whether the committed ISR is the one that it names.

        An answer that comes after a newer LeaderAndIsr changes nothing.
        """
        if (
            self.pending is not proposal
            or altered.leader_epoch != leader_epoch
            or altered.partition_epoch < self.partition_epoch
        ):
            return False
        self._commit(altered.isr)
        self.recovery_state = altered.recovery_state
        self.partition_epoch = altered.partition_epoch
        return True

    def refuse(self, proposal: IsrProposal, error: ErrorCode) -> bool:
        """The controller refused a proposal; whether to send it again."""
        if self.pending is not proposal:
            return False
        if error in _REVERTED_BY:
            self._commit(self.isr)
            return False
        return error not in _FINAL
