"""Streams groups for any members and histories: a task has one owner, a process has it once, and all tasks are run."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.property.effort import examples
from tests.unit.groups.streams_world import StreamsMember, StreamsWorld
from tidelog.groups.streams.assignor import Candidate, SubtopologyTasks, assign_sticky
from tidelog.groups.streams.tasks import NOTHING, TaskId, TaskSet, task_ids
from tidelog.wire.errors import ErrorCode

MEMBERS = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("pqrs"), min_size=1)
SUBTOPOLOGIES = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=3)


def tasks_of(subtopologies: list[tuple[int, bool]]) -> list[SubtopologyTasks]:
    return [SubtopologyTasks(str(number), count, stateful) for number, (count, stateful) in enumerate(subtopologies)]


def assigned(
    members: dict[str, str], subtopologies: list[tuple[int, bool]], standby: int, before: dict[str, TaskSet]
) -> dict[str, TaskSet]:
    candidates = {name: Candidate(process, before.get(name, NOTHING)) for name, process in members.items()}
    return assign_sticky(candidates, tasks_of(subtopologies), standby)


@given(MEMBERS, MEMBERS, SUBTOPOLOGIES, st.integers(0, 2))
def test_every_task_is_active_once_and_copied_to_other_processes(
    members: dict[str, str], earlier: dict[str, str], subtopologies: list[tuple[int, bool]], standby: int
) -> None:
    before = assigned(earlier, subtopologies, standby, {})
    found = assigned(members, subtopologies, standby, before)
    everything = sorted((each.subtopology_id, p) for each in tasks_of(subtopologies) for p in range(each.task_count))
    assert sorted(task for tasks in found.values() for task in task_ids(tasks.active)) == everything
    held = Counter((members[name], task) for name, tasks in found.items() for task in _all(tasks))
    assert set(held.values()) <= {1}, "a process has a task twice"
    copies = Counter(task for tasks in found.values() for task in task_ids(tasks.standby))
    stateful = {each.subtopology_id for each in tasks_of(subtopologies) if each.is_stateful}
    wanted = min(standby, len(set(members.values())) - 1)
    assert copies == {task: wanted for task in everything if task[0] in stateful and wanted}


@given(MEMBERS, SUBTOPOLOGIES, st.integers(0, 2))
def test_nothing_moves_as_long_as_the_members_stay(
    members: dict[str, str], subtopologies: list[tuple[int, bool]], standby: int
) -> None:
    found = assigned(members, subtopologies, standby, {})
    again = assigned(members, subtopologies, standby, found)
    assert {name: tasks.active for name, tasks in again.items()} == {
        name: tasks.active for name, tasks in found.items()
    }


@given(st.sets(st.sampled_from("abcdefgh"), min_size=1), st.integers(1, 20))
def test_processes_of_one_member_get_equally_many_active_tasks(names: set[str], count: int) -> None:
    found = assigned({name: name for name in names}, [(count, False)], 0, {})
    loads = [sum(1 for _ in task_ids(tasks.active)) for tasks in found.values()]
    assert max(loads) - min(loads) <= 1


def _all(tasks: TaskSet) -> list[TaskId]:
    return [task for role in tasks for task in task_ids(role)]


class Application(RuleBasedStateMachine):
    """Members come, go, die, are slow; topics grow; the coordinator moves."""

    def __init__(self) -> None:
        super().__init__()
        self.world = StreamsWorld(standby_count=1)
        self.members: dict[str, StreamsMember] = {}

    @rule(name=st.sampled_from("abcde"), process=st.sampled_from("pqr"))
    def join(self, name: str, process: str) -> None:
        if name not in self.members:
            self.members[name] = StreamsMember(self.world, name, process).beat(0)

    @precondition(lambda self: self.members)
    @rule(data=st.data(), is_slow=st.booleans())
    def beat(self, data: st.DataObject, is_slow: bool) -> None:
        member = self.members[data.draw(st.sampled_from(sorted(self.members)))]
        member.is_slow = is_slow
        self._beat(member)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.members)))
        self.members.pop(name).beat(-1)

    @rule(by_ms=st.integers(1_000, 20_000))
    def wait(self, by_ms: int) -> None:
        self.world.advance(by_ms)

    @rule(count=st.integers(1, 6))
    def resize(self, count: int) -> None:
        for name in ("t", "app-r", "app-c"):
            self.world.topics.put(name, count)

    @rule()
    def take_over(self) -> None:
        self.world.restart()

    def _beat(self, member: StreamsMember) -> None:
        """A fenced member gives up everything and joins again, as the client does."""
        member.beat()
        if member.code is not ErrorCode.NONE:
            assert member.code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.INVALID_REQUEST,  # it has a task that is no more
            ), member.message
            member.is_slow = False
            member.beat(0)

    @invariant()
    def a_task_has_one_owner(self) -> None:
        group = self.world.shard.group("app")
        if group is None or group.streams is None:
            return
        known = group.streams.members.values()
        owned = Counter(
            task for each in known for task in {*task_ids(each.assigned.active), *task_ids(each.revoking.active)}
        )
        assert set(owned.values()) <= {1}
        held = Counter((each.process_id, task) for each in known for task in {*_all(each.assigned)})
        assert set(held.values()) <= {1}

    def teardown(self) -> None:
        """Once nothing happens any more, every task is run by one member."""
        for name in ("t", "app-r", "app-c"):
            self.world.topics.put(name, 4)
        for _ in range(12):
            for member in self.members.values():
                member.is_slow = False
                self._beat(member)
            self.world.advance(5_000)
        if self.members:
            active = [task for member in self.members.values() for task in member.active]
            assert sorted(active) == [(subtopology, p) for subtopology in "01" for p in range(4)]
            assert self.world.group.state_name == "Stable"


TestApplication = Application.TestCase
TestApplication.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
