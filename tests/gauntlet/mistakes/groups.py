"""Mistakes of the group coordinator and of what both coordinators are built on."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.planting import mistake

_RUNTIME: Final = "tidelog.coordination.runtime:CoordinatorRuntime"
_REQUESTS: Final = "tidelog.groups.offset_requests"

MISTAKES: Final = (
    mistake(
        "a coordinator replies before its records are committed",
        "coordination",
        f"{_RUNTIME}._stage",
        "active.pending.append(pending)",
        "active.pending.append(pending)\n    pending.outcome = _NONE",
        (
            f"{_RUNTIME}._append_open",
            "        return True\n",
            "        batch.outcome = _NONE\n        self._release(active)\n        return True\n",
        ),
        known="KAFKA-4698",
    ),
    mistake(
        "a reply without records does not wait for the records that it depends on",
        "coordination",
        f"{_RUNTIME}._carry_out",
        "    if active.pending:\n",
        "    if False:\n",
    ),
    mistake(
        "a commit of an old generation is accepted",
        "groups",
        f"{_REQUESTS}:check_committer",
        "        group.check_member(member_id, instance_id)\n        group.check_generation(generation)\n",
        "        pass\n",
    ),
    mistake(
        "a commit of an old member epoch is accepted",
        "groups",
        f"{_REQUESTS}:check_consumer_epoch",
        "if committer.generation != member.member_epoch:",
        "if False:",
    ),
    mistake(
        "a SyncGroup of an old generation is accepted",
        "groups",
        "tidelog.groups.classic.syncing:Syncs.sync",
        "group.check_generation(request.generation_id)",
        "pass",
    ),
    mistake(
        "an assignment is handed out before it is stored",
        "groups",
        "tidelog.groups.classic.syncing:Syncs._store",
        "effects.then = stored",
        "self._rebalances.hand_out(group, assignments, effects, group.state_since_ms or 0)",
    ),
    mistake(
        "a static member that was replaced goes on under its old id",
        "groups",
        "tidelog.groups.classic.group:Group.check_member",
        'raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"instance {instance_id} now has another member id")',
        "member_id = current_id",
        known="KIP-345",
    ),
    mistake(
        "the leader of a classic group assigns each partition to every member",
        "client",
        "tidelog.client.aio.consumer.leader:assign",
        "plan = assignor.assign(topics, subscriptions)",
        "plan = assignor.assign(topics, subscriptions)\n"
        "    plan = dict.fromkeys(plan, sorted({each for partitions in plan.values() for each in partitions}))",
    ),
    mistake(
        "a partition is assigned before its last owner has revoked it",
        "groups",
        "tidelog.groups.consumer.reconciliation:_towards",
        "if is_free(topic_id, partition)",
        "if True",
        known="KIP-848",
    ),
    mistake(
        "a heartbeat of an old member epoch is accepted",
        "groups",
        "tidelog.groups.consumer.checks:check_epoch",
        "if epoch == member.member_epoch:",
        "if True:",
    ),
    mistake(
        "members of a loaded group have no session",
        "groups",
        "tidelog.groups.shard:GroupShard.on_loaded",
        "            effects.keep_alive(group, member)\n        effects.timers += self._consumers.timers(group)\n",
        "            pass\n",
    ),
    mistake(
        "offsets of a transaction count before it is committed",
        "groups",
        "tidelog.groups.shard:GroupShard.replay",
        "elif producer_id < 0:",
        "elif True:",
    ),
    mistake(
        "a loading coordinator passes over the ends of transactions",
        "coordination",
        "tidelog.coordination._batches:replay_batches",
        "shard.replay_end_transaction(header.producer_id, header.producer_epoch, is_commit)",
        "pass",
    ),
)
