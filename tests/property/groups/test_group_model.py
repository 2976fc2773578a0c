"""The group core beside the model: whatever members do and whenever, both answer the same."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.property.effort import examples
from tests.property.groups.model import ID_REQUIRED, NONE, REBALANCE_MS, SESSION_MS, Model
from tests.unit.groups.world import GROUP, Call, World
from tidelog.wire.errors import ApiError, ErrorCode

METADATA = (b"one", b"two")


class GroupBesideModel(RuleBasedStateMachine):
    """Members are picked by number among all ids ever seen, so that those who are gone ask as well."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.model = Model()
        self.ids: list[str] = ["unknown"]
        self.tickets: dict[int, Call] = {}

    def pick(self, number: int) -> str:
        """A member, a millisecond later: simultaneous events have no promised order."""
        self.pass_time(1)
        return self.ids[number % len(self.ids)]

    def compare(self, call: Call, expected: str | None) -> None:
        if expected is not None:
            assert _name(call) == expected
        else:
            self.tickets[id(call)] = call
        events = [(self.tickets.pop(ticket), error) for ticket, error in self._take_events()]
        for answered, error in events:
            assert _name(answered) == error
        assert all(waiting.is_waiting for waiting in self.tickets.values())

    def _take_events(self) -> list[tuple[int, str]]:
        events, self.model.events = self.model.events, []
        return [(int(str(ticket)), error) for ticket, error in events]

    def join_with(self, member: str, metadata: bytes, is_new: bool) -> None:
        self.pass_time(1)
        call = self.world.join(member, protocols=(("range", metadata),), rebalance_timeout_ms=REBALANCE_MS)
        if is_new:
            member = next(name for name in reversed(self.world.group.members) if name not in self.ids)
            self.ids.append(member)
        self.compare(call, self.model.join(id(call), member, metadata, is_new))
        if not call.is_waiting and call.code is ErrorCode.NONE and call.reply.leader == call.reply.member_id:
            assert {m.member_id for m in call.reply.members} == set(self.model.people)

    @rule(metadata=st.sampled_from(METADATA))
    def a_stranger_joins(self, metadata: bytes) -> None:
        self.join_with("", metadata, is_new=True)

    @rule()
    def a_stranger_asks_for_an_id(self) -> None:
        self.pass_time(1)
        call = self.world.join(needs_member_id=True)
        self.ids.append(call.reply.member_id)
        self.model.give_out(self.ids[-1])
        assert _name(call) == ID_REQUIRED

    @rule(number=st.integers(0, 9), metadata=st.sampled_from(METADATA))
    def a_member_joins_again(self, number: int, metadata: bytes) -> None:
        self.join_with(self.pick(number), metadata, is_new=False)

    @rule(number=st.integers(0, 9), back=st.sampled_from((0, 0, 0, 1)))
    def a_member_syncs(self, number: int, back: int) -> None:
        member, generation = self.pick(number), self.model.generation - back
        parts = {name: f"{name}@{generation}".encode() for name in self.model.people}
        call = self.world.sync(member, generation, parts)
        self.compare(call, self.model.sync(id(call), member, generation, parts))
        if not call.is_waiting and call.code is ErrorCode.NONE:
            assert call.reply.assignment == self.model.people[member].part

    @rule(number=st.integers(0, 9), back=st.sampled_from((0, 0, 0, 1)))
    def a_member_sends_a_heartbeat(self, number: int, back: int) -> None:
        member, generation = self.pick(number), self.model.generation - back
        assert self.world.heartbeat(member, generation).name == self.model.heartbeat(member, generation)

    @rule(number=st.integers(0, 9))
    def a_member_leaves(self, number: int) -> None:
        member = self.pick(number)
        (code,) = self.world.leave((member, None)) if self.world.shard.group(GROUP) else (ErrorCode.UNKNOWN_MEMBER_ID,)
        assert code.name == self.model.leave(member)
        self.compare_events()

    @rule(number=st.integers(0, 9), offset=st.integers(0, 99))
    def a_member_commits(self, number: int, offset: int) -> None:
        if self.world.shard.group(GROUP) is None:
            return
        member = self.pick(number)
        code = self.world.commit(offset, member_id=member, generation=self.model.generation)
        assert code.name == self.model.commit(member, self.model.generation, offset)

    @rule(seconds=st.sampled_from((1, 4, SESSION_MS // 1000, 31)))
    def time_passes(self, seconds: int) -> None:
        self.pass_time(seconds * 1000)

    def pass_time(self, by_ms: int) -> None:
        self.world.advance(by_ms)
        self.model.advance(by_ms)
        self.compare_events()

    def compare_events(self) -> None:
        for ticket, error in self._take_events():
            assert _name(self.tickets.pop(ticket)) == error
        assert all(waiting.is_waiting for waiting in self.tickets.values())

    @invariant()
    def both_see_the_same_group(self) -> None:
        group = self.world.shard.group(GROUP)
        if group is None:
            assert self.model.state == "Empty"
            assert not self.model.people
            return
        assert group.state.value == self.model.state
        assert group.generation == self.model.generation
        assert list(group.members) == list(self.model.people)
        assert group.leader_id == self.model.leader
        assert self.world.committed() == (-1 if self.model.offset is None else self.model.offset)

    @invariant()
    def what_is_stored_can_be_loaded(self) -> None:
        """A group is stored when it becomes stable or empty, so then a restart changes nothing."""
        if self.model.state == "Stable" and self.world.log.batches:
            other = World()
            other.log.batches = list(self.world.log.batches)
            other.restart()
            assert other.group.generation == self.model.generation
            assert {m.member_id: m.assignment for m in other.group.members.values()} == {
                name: person.part for name, person in self.model.people.items()
            }
            assert other.committed() == self.world.committed()


def _name(call: Call) -> str:
    assert len(call.outcomes) == 1, f"one answer is due, there are {call.outcomes}"
    outcome = call.outcomes[0]
    code = outcome.code if isinstance(outcome, ApiError) else ErrorCode(outcome.error_code)
    return NONE if code is ErrorCode.NONE else code.name


TestGroupBesideModel = GroupBesideModel.TestCase
TestGroupBesideModel.settings = settings(deadline=None, max_examples=examples(100), stateful_step_count=40)
