"""A coordinator of one partition around a log in memory, with a clock that tests turn: requests in, replies out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from tidelog.coordination import CoordinatorRuntime, Decision, ProducerEpoch
from tidelog.groups import Committer, Group, GroupSettings, GroupShard, Joiner
from tidelog.records.batch import iterate_records
from tidelog.records.header import read_header
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 30_000
RANGE = (("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"),)


class Log:
    """Keeps batches and commits them at once, unless `is_slow`, or refuses with `refusal`."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.refusal: ErrorCode | None = None
        self.is_slow = False
        self._waiting: list[Callable[[ErrorCode, int], None]] = []

    def append(self, partition: int, batch: bytearray, on_committed: Callable[[ErrorCode, int], None]) -> int:
        if self.refusal is not None:
            raise ApiError(self.refusal)
        self.batches.append(bytes(batch))
        if self.is_slow:
            self._waiting.append(on_committed)
        else:
            on_committed(ErrorCode.NONE, 0)
        return 0

    def await_commit(self, _partition: int, on_committed: Callable[[ErrorCode, int], None]) -> None:
        if self.is_slow:
            self._waiting.append(on_committed)
        else:
            on_committed(ErrorCode.NONE, 0)

    def commit(self, code: ErrorCode = ErrorCode.NONE) -> None:
        waiting, self._waiting = self._waiting, []
        for on_committed in waiting:
            on_committed(code, 0)

    def records(self) -> list[tuple[bytes | None, bytes | None]]:
        return [
            (record.key, record.value)
            for batch in self.batches
            if not read_header(batch).is_control
            for record in iterate_records(batch)
        ]


class Call:
    """One request: waits, or has its outcome."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []

    def __call__(self, outcome: Any) -> None:
        self.outcomes.append(outcome)

    @property
    def is_waiting(self) -> bool:
        return not self.outcomes

    @property
    def reply(self) -> Any:
        assert len(self.outcomes) == 1, f"one answer is due, there are {len(self.outcomes)}"
        assert not isinstance(self.outcomes[0], ApiError), self.outcomes[0]
        return self.outcomes[0]

    @property
    def code(self) -> ErrorCode:
        assert len(self.outcomes) == 1, f"one answer is due, there are {len(self.outcomes)}"
        outcome = self.outcomes[0]
        return outcome.code if isinstance(outcome, ApiError) else ErrorCode(outcome.error_code)


class World:
    """One shard behind its runtime."""

    def __init__(self, **settings: Any) -> None:
        self.settings = GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.clock = ManualClock()
        self.timer = Timer(0)
        self.log = Log()
        self._ids = count(1)
        self.runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            lambda partition: GroupShard(partition, self.settings, lambda: str(next(self._ids))),
            self.log.append,
            self.log.await_commit,
            self.clock,
            self.timer,
        )
        self.runtime.load(0, [])

    # --- time ---

    def advance(self, by_ms: int) -> None:
        """Let time pass, and every timer run at its moment."""
        end_ms = self.clock.monotonic_ms() + by_ms
        while True:
            next_ms = self.timer.next_expiry_ms()
            if next_ms is None or next_ms > end_ms:
                break
            self.clock.advance(max(0, next_ms - self.clock.monotonic_ms()))
            self.timer.advance(self.clock.monotonic_ms())
        self.clock.advance(end_ms - self.clock.monotonic_ms())
        self.timer.advance(end_ms)

    def restart(self) -> None:
        """The coordinator moves: what is not in the log is lost."""
        self.runtime.load(0, list(self.log.batches))

    # --- requests ---

    def execute(self, operation: Callable[[GroupShard, Call, int], Decision[Any]]) -> Call:
        call = Call()
        self.runtime.execute(0, lambda shard, now_ms: operation(shard, call, now_ms), call)
        return call

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: Sequence[tuple[str, bytes]] = RANGE,
        protocol_type: str = "consumer",
        session_timeout_ms: int = SESSION_MS,
        rebalance_timeout_ms: int = REBALANCE_MS,
        needs_member_id: bool = False,
        may_skip_assignment: bool = True,
        client_id: str = "c",
        group_id: str = GROUP,
    ) -> Call:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols],
        )
        joiner = Joiner(client_id, "/127.0.0.1", needs_member_id and instance_id is None, may_skip_assignment)
        return self.execute(lambda shard, call, now_ms: shard.join(request, joiner, call, now_ms))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        group_id: str = GROUP,
    ) -> Call:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=part)
                for member, part in (assignments or {}).items()
            ],
        )
        return self.execute(lambda shard, call, now_ms: shard.sync(request, call, now_ms))

    def heartbeat(
        self, member_id: str, generation: int, *, instance_id: str | None = None, group_id: str = GROUP
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        return self.execute(lambda shard, _, now_ms: shard.heartbeat(request, now_ms)).code

    def leave(self, *members: tuple[str, str | None], group_id: str = GROUP) -> list[ErrorCode]:
        identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
        request = LeaveGroupRequest(group_id=group_id, members=identities)
        reply = self.execute(lambda shard, _, now_ms: shard.leave(request, now_ms)).reply
        return [ErrorCode(member.error_code) for member in reply.members]

    def commit(
        self,
        offset: int,
        *,
        topic: str = "t",
        partition: int = 0,
        member_id: str = "",
        generation: int = -1,
        instance_id: str | None = None,
        metadata: str | None = "",
        leader_epoch: int = -1,
        retention_ms: int = -1,
        producer: ProducerEpoch | None = None,
        partition_count: Callable[[str], int] = lambda _: 10_000,
        group_id: str = GROUP,
        topic_id: bytes | None = None,
    ) -> ErrorCode:
        topics = [(topic, [(partition, offset, leader_epoch, metadata, -1)])]
        committer = Committer(generation, member_id, instance_id)
        call = self.execute(
            lambda shard, _, now_ms: shard.commit_offsets(
                group_id,
                committer,
                topics,
                partition_count,
                now_ms,
                retention_ms=retention_ms,
                producer=producer,
                topic_id_of=None if topic_id is None else lambda _: topic_id,
            )
        )
        outcome = call.outcomes[0]
        if isinstance(outcome, ApiError):
            return outcome.code
        assert [(name, [index for index, _ in codes]) for name, codes in outcome] == [(topic, [partition])]
        code: ErrorCode = outcome[0][1][0][1]
        return code

    def committed(
        self, topic: str = "t", partition: int = 0, *, group_id: str = GROUP, topic_id: bytes | None = None
    ) -> int:
        """The offset committed, for the topic with this id if it is given, or -1."""
        topic_id_of = None if topic_id is None else lambda _: topic_id
        (entry,) = self.shard.fetch_offsets(group_id, [(topic, [partition])], False, None, topic_id_of)[topic]
        return -1 if entry.committed is None else entry.committed.offset

    def delete_group(self, group_id: str = GROUP) -> ErrorCode:
        call = self.execute(lambda shard, call, now_ms: shard.delete_group(group_id, call, now_ms))
        outcome = call.outcomes[0]
        return outcome.code if isinstance(outcome, ApiError) else outcome

    # --- what is so ---

    @property
    def shard(self) -> GroupShard:
        return self.runtime.shard(0)

    @property
    def group(self) -> Group:
        group = self.shard.group(GROUP)
        assert group is not None, "the group exists"
        return group

    # --- common beginnings ---

    def stable(self, *instance_ids: str | None, **options: Any) -> list[str]:
        """A stable group with a member for each instance id (None for a dynamic one); their ids, leader first."""
        joins: list[Call] = []
        ids: list[str] = []
        for instance_id in instance_ids:
            before = list(ids)
            call = self.join(instance_id=instance_id, **options)
            again = [
                self.join(member, instance_id=i, **options) for member, i in zip(before, instance_ids, strict=False)
            ]
            joins = [*again, call]
            ids = [join.reply.member_id for join in joins]
            generation = joins[0].reply.generation_id
            leader = joins[0].reply.leader
            assignments = {member: f"part of {member}".encode() for member in ids}
            ordered = sorted(ids, key=lambda member: member == leader)
            syncs = [self.sync(member, generation, assignments if member == leader else None) for member in ordered]
            assert all(sync.code is ErrorCode.NONE for sync in syncs)
        return ids


def join_replies(*calls: Call) -> list[JoinGroupResponse]:
    return [call.reply for call in calls]
