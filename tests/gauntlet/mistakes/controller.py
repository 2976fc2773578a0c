"""Mistakes of the controller: fences, versions, elections, work that is left half-done."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.planting import mistake

_ISR_UPDATES: Final = "tidelog.controller.isr_updates:IsrUpdates"
_ELECTIONS: Final = "tidelog.controller.elections"

MISTAKES: Final = (
    mistake(
        "a controller writes after another one has been elected",
        "controller",
        "tidelog.controller.tree:_submit",
        "store.submit_all(operations, fence)",
        "store.submit_all(operations)",
        known="KAFKA-6082",
    ),
    mistake(
        "brokers obey a controller that has been replaced",
        "controller",
        "tidelog.replication.role_changes:RoleChanges.check_controller",
        "if controller_epoch < self.controller_epoch:",
        "if False:",
    ),
    mistake(
        "a leader that missed a change of its ISR overwrites it",
        "controller",
        f"{_ISR_UPDATES}._check",
        "if data.partition_epoch < current.partition_epoch:",
        "if False:",
        (f"{_ISR_UPDATES}._check", "        data.partition_epoch,\n", "        current.partition_epoch,\n"),
        known="KAFKA-2729",
    ),
    mistake(
        "a leader of a former epoch changes the ISR",
        "controller",
        f"{_ISR_UPDATES}._check",
        "if data.leader_epoch < current.leader_epoch:",
        "if False:",
        (f"{_ISR_UPDATES}._check", "if data.partition_epoch < current.partition_epoch:", "if False:"),
        (
            f"{_ISR_UPDATES}._check",
            "        data.leader_epoch,\n",
            "        current.leader_epoch,\n",
        ),
        (
            f"{_ISR_UPDATES}._check",
            "        data.partition_epoch,\n",
            "        current.partition_epoch,\n",
        ),
    ),
    mistake(
        "a broker that is down joins the ISR",
        "controller",
        f"{_ISR_UPDATES}._are_eligible",
        "missing = set(isr).difference(context.live_broker_ids())",
        "missing = set()",
        (
            "tidelog.replication.replica_set:ReplicaSet.propose_expansion",
            "or not self.rules.is_alive(replica)",
            "",
        ),
        known="KIP-841",
    ),
    mistake(
        "the broker epoch of an ISR member is not compared",
        "controller",
        f"{_ISR_UPDATES}._are_eligible",
        "if version >= _EPOCHS_SINCE:",
        "if False:",
        known="KIP-903",
    ),
    mistake(
        "a leader from outside the ISR is elected though the topic forbids it",
        "controller",
        f"{_ELECTIONS}:_elect_offline",
        "elif is_unclean_allowed and online:",
        "elif online:",
    ),
    mistake(
        "the preferred leader is elected though it is not in sync",
        "controller",
        f"{_ELECTIONS}:_elect_preferred",
        " and preferred in leadership.isr",
        "",
    ),
    mistake(
        "an election does not begin a new leader epoch",
        "controller",
        "tidelog.controller.partitions:Leadership.next",
        "leader_epoch=self.leader_epoch + 1",
        "leader_epoch=self.leader_epoch + (leader is None)",
    ),
    mistake(
        "a reassignment completes before its new replicas are in sync",
        "controller",
        "tidelog.controller.reassignments:Reassignments._is_in_sync",
        "leadership is not None and set(assignment.target).issubset(leadership.isr)",
        "leadership is not None",
    ),
    mistake(
        "a new controller forgets reassignments that are half-done",
        "controller",
        "tidelog.controller.controller:Controller._load",
        "if context.assignment(partition).is_being_reassigned",
        "if False",
    ),
    mistake(
        "a new controller forgets deletions that are half-done",
        "controller",
        "tidelog.controller.topic_deletion:TopicDeletionManager.start",
        "self._context.topics_to_delete.update(requested)",
        "pass",
    ),
    mistake(
        "the controller writes a topic without its id",
        "controller",
        "tidelog.controller.context:ControllerContext.topic_assignment",
        "TopicAssignment(self.topic_ids.get(name), ",
        "TopicAssignment(None, ",
        known="KAFKA-14190",
    ),
    mistake(
        "the controller does not notice that a broker has restarted",
        "controller",
        "tidelog.controller.controller:Controller._on_broker_change",
        "if now[each].epoch > before[each].epoch",
        "if False",
        known="KAFKA-7235",
    ),
)
