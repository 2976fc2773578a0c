"""The sticky task assignor: who runs which task, and who keeps copies of its state.

Tasks stay where they are as long as that is fair. An active task goes to the member that had it, else to one that has a
copy of its state, else to the least loaded process. Standby tasks follow in the same way, and never go to a process
that has the task already: a copy beside the original would help nobody. A member's fair share is what is left to assign
by the members that still have room.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Mapping
from itertools import count
from typing import NamedTuple

from tidelog.groups.streams.tasks import TaskId, TaskSet, grouped, task_ids

logger = logging.getLogger(__name__)


class Candidate(NamedTuple):
    """A member, and the target that it had before."""

    process_id: str
    before: TaskSet


class SubtopologyTasks(NamedTuple):
    """How many tasks a subtopology has, and whether they have state to copy."""

    subtopology_id: str
    task_count: int
    is_stateful: bool


class _Member:
    def __init__(self, member_id: str, process: _Process) -> None:
        self.member_id = member_id
        self.process = process
        self.active: set[TaskId] = set()
        self.standby: set[TaskId] = set()

    @property
    def load(self) -> int:
        return len(self.active) + len(self.standby)


class _Process:
    """Members that share a state directory."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self.tasks: set[TaskId] = set()

    @property
    def load(self) -> float:
        """Tasks per member."""
        return len(self.tasks) / len(self.members)


class _Share:
    """How many tasks a member may have: what is left by the members that are not full yet, rounded up."""

    def __init__(self, task_count: int, member_count: int) -> None:
        self._task_count = task_count
        self._member_count = member_count

    @property
    def limit(self) -> int:
        return -(-self._task_count // self._member_count) if self._member_count else 0

    def on_added(self, load: int) -> None:
        """A member now has this many tasks."""
        if load == self.limit:
            self._member_count -= 1
            self._task_count -= load


class _Queue:
    """Processes by load. The load of one that is in the queue does not change."""

    def __init__(self, processes: Iterable[_Process]) -> None:
        self._order = count()
        self._heap = [(process.load, next(self._order), process) for process in processes]
        heapq.heapify(self._heap)

    def take_without(self, task: TaskId) -> _Process | None:
        """Remove the least loaded process that does not have the task."""
        skipped = []
        found = None
        while self._heap and found is None:
            entry = heapq.heappop(self._heap)
            if task in entry[2].tasks:
                skipped.append(entry)
            else:
                found = entry[2]
        for entry in skipped:
            heapq.heappush(self._heap, entry)
        return found

    def put(self, process: _Process) -> None:
        heapq.heappush(self._heap, (process.load, next(self._order), process))


def assign_sticky(
    candidates: Mapping[str, Candidate], subtopologies: Iterable[SubtopologyTasks], standby_count: int
) -> dict[str, TaskSet]:
    """The target of every member."""
    return _Assignment(candidates, list(subtopologies), standby_count).make()


class _Assignment:
    def __init__(
        self, candidates: Mapping[str, Candidate], subtopologies: list[SubtopologyTasks], standby_count: int
    ) -> None:
        self._standby_count = standby_count
        self._active = _tasks_of(subtopologies)
        self._stateful = _tasks_of(each for each in subtopologies if each.is_stateful)
        self._processes: dict[str, _Process] = {}
        self._members: list[_Member] = []
        self._had_active: dict[TaskId, _Member] = {}
        self._had_standby: dict[TaskId, list[_Member]] = {}
        for member_id, (process_id, before) in sorted(candidates.items()):
            member = self._add_member(member_id, process_id)
            for task in task_ids(before.active):
                self._had_active[task] = member
            for task in task_ids(before.standby):
                self._had_standby.setdefault(task, []).append(member)
        self._active_share = _Share(len(self._active), len(self._members))
        self._share = _Share(len(self._active) + len(self._stateful) * standby_count, len(self._members))

    def _add_member(self, member_id: str, process_id: str) -> _Member:
        process = self._processes.setdefault(process_id, _Process())
        member = _Member(member_id, process)
        process.members.append(member)
        self._members.append(member)
        return member

    def make(self) -> dict[str, TaskSet]:
        if self._members:
            self._assign_active()
            if self._standby_count:
                self._assign_standby()
        return {member.member_id: TaskSet(grouped(member.active), grouped(member.standby)) for member in self._members}

    # --- active tasks ---

    def _assign_active(self) -> None:
        left = []
        for task in sorted(self._active, key=_by_partition):
            had = self._had_active.get(task)
            if had is not None and had.load < self._active_share.limit:
                self._add_active(had, task)
            else:
                left.append(task)
        homeless = []
        for task in left:
            copied = _least_loaded(self._had_standby.get(task, ()))
            if copied is not None and copied.load < self._active_share.limit:
                self._add_active(copied, task)
            else:
                homeless.append(task)
        queue = _Queue(self._processes.values())
        for task in sorted(homeless):
            process = queue.take_without(task)
            assert process is not None, f"no process has the active task {task} yet"
            self._add_active(min(process.members, key=_load), task)
            queue.put(process)

    def _add_active(self, member: _Member, task: TaskId) -> None:
        member.active.add(task)
        member.process.tasks.add(task)
        self._active_share.on_added(member.load)
        self._share.on_added(member.load)

    # --- standby tasks ---

    def _assign_standby(self) -> None:
        left: list[tuple[TaskId, int]] = []
        for task in sorted(self._stateful, key=_by_partition, reverse=True):
            for number in range(self._standby_count):
                member = self._keeper(task)
                if member is None:
                    left.append((task, self._standby_count - number))
                    break
                self._add_standby(member, task)
        queue = _Queue(self._processes.values())
        homeless = 0
        for task, wanted in sorted(left, reverse=True):
            for number in range(wanted):
                process = queue.take_without(task)
                if process is None:
                    homeless += wanted - number
                    break
                self._add_standby(min(process.members, key=_load), task)
                queue.put(process)
        if homeless:
            text = "%d standby tasks of %d stateful tasks have no process: start more instances of the application"
            logger.warning(text, homeless, len(self._stateful))

    def _keeper(self, task: TaskId) -> _Member | None:
        """The member with room that had the task, and so its state, before."""
        active = self._had_active.get(task)
        if active is not None and task not in active.process.tasks and active.load < self._share.limit:
            return active
        member = _least_loaded(each for each in self._had_standby.get(task, ()) if task not in each.process.tasks)
        return member if member is not None and member.load < self._share.limit else None

    def _add_standby(self, member: _Member, task: TaskId) -> None:
        member.standby.add(task)
        member.process.tasks.add(task)
        self._share.on_added(member.load)


def _tasks_of(subtopologies: Iterable[SubtopologyTasks]) -> list[TaskId]:
    return [(each.subtopology_id, partition) for each in subtopologies for partition in range(each.task_count)]


def _by_partition(task: TaskId) -> tuple[int, str]:
    return task[1], task[0]


def _load(member: _Member) -> int:
    return member.load


def _least_loaded(members: Iterable[_Member]) -> _Member | None:
    return min(members, key=lambda member: (member.process.load, member.load), default=None)
