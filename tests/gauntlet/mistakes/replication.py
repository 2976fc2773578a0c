"""Mistakes in replication: truncation, leader epochs, high watermarks, in-sync replicas."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.planting import mistake

_PARTITION: Final = "tidelog.replication.partition:Partition"
_REPLICA_SET: Final = "tidelog.replication.replica_set:ReplicaSet"
_FETCHER: Final = "tidelog.replication.fetcher:Fetcher"
_ROLES: Final = "tidelog.replication.role_changes"

TRUNCATION_TO_THE_HIGH_WATERMARK: Final = mistake(
    "a follower truncates to its high watermark instead of by leader epoch",
    "replication",
    f"{_FETCHER}.add",
    "if has_no_epochs and log.log_end_offset > log.log_start_offset:",
    "if log.log_end_offset > log.log_start_offset:",
    (f"{_FETCHER}._entry", "followed.last_fetched_epoch if self.uses_diverging_epochs else NO_EPOCH", "NO_EPOCH"),
    known="KIP-101",
)
"""The one that tests plant by its name."""

MISTAKES: Final = (
    TRUNCATION_TO_THE_HIGH_WATERMARK,
    mistake(
        "a leader does not say where the log of a follower has diverged",
        "replication",
        "tidelog.replication.fetch:_diverging_epoch",
        "epoch < fetch.last_fetched_epoch or end_offset < fetch.fetch_offset",
        "False",
        known="KIP-595",
    ),
    mistake(
        "a follower truncates to where its leader's epoch ends, not its own",
        "replication",
        f"{_FETCHER}._cut_at",
        "min(end_offset, leader_end_offset, log.log_end_offset)",
        "min(leader_end_offset, log.log_end_offset)",
        known="KIP-279, KAFKA-6361",
    ),
    mistake(
        "a leader serves fetches of any leader epoch",
        "replication",
        f"{_PARTITION}.check_readable",
        "if current_leader_epoch not in (-1, self.leader_epoch):",
        "if False:",
        known="KIP-320",
    ),
    mistake(
        "a truncation leaves the leader epochs as they were",
        "replication",
        "tidelog.storage.leader_epochs:LeaderEpochCache.truncate_from_end",
        "if end_offset >= 0 and keep < len(entries):",
        "if False:",
    ),
    mistake(
        "a follower joins the ISR with its first fetch",
        "replication",
        f"{_REPLICA_SET}.propose_expansion",
        "follower.log_end_offset < max(high_watermark, self.leader_epoch_start_offset)",
        "False",
    ),
    mistake(
        "a follower joins the ISR below the start of the leader epoch",
        "replication",
        f"{_REPLICA_SET}.propose_expansion",
        "max(high_watermark, self.leader_epoch_start_offset)",
        "high_watermark",
        known="KAFKA-7128",
    ),
    mistake(
        "the high watermark moves before the followers have the records",
        "replication",
        f"{_REPLICA_SET}.committed_end_offset",
        "if follower.log_end_offset < committed and (",
        "if False and (",
    ),
    mistake(
        "the high watermark counts the committed ISR instead of the maximal one",
        "replication",
        f"{_REPLICA_SET}.committed_end_offset",
        "maximal_isr = self.maximal_isr",
        "maximal_isr = self.isr",
        known="KIP-497",
    ),
    mistake(
        "a replica leaves the maximal ISR before the controller has removed it",
        "replication",
        f"{_REPLICA_SET}._propose",
        "(*self.isr, *(replica for replica in isr if replica not in self.isr))",
        "isr",
        known="KAFKA-13835",
    ),
    mistake(
        "records are committed with fewer than min.insync.replicas",
        "replication",
        f"{_REPLICA_SET}.committed_end_offset",
        "if len(self.isr) < self.needed_in_sync(min_insync_replicas):",
        "if False:",
        known="KIP-966",
    ),
    mistake(
        "acks=all is answered once the leader has written",
        "replication",
        f"{_PARTITION}.is_acknowledged",
        "if acks == ACKS_ALL else",
        "if False else",
    ),
    mistake(
        "a follower's high watermark falls to that of a new leader",
        "replication",
        f"{_PARTITION}.follow_leader",
        "has_moved = committed > log.high_watermark",
        "has_moved = committed != log.high_watermark",
        known="KAFKA-3410",
    ),
    mistake(
        "consumers read what is not committed",
        "replication",
        f"{_PARTITION}.end_for_reader",
        "else positions.high_watermark",
        "else positions.written_end_offset",
        known="KAFKA-9835",
    ),
    mistake(
        "a new leader counts how far followers were when it led before",
        "replication",
        "tidelog.replication.follower_state:FollowerState.begin_epoch",
        "if is_new_leader:",
        "if False:",
        (
            f"{_REPLICA_SET}.follow",
            "self.followers = {}",
            "pass",
        ),
    ),
    mistake(
        "a follower counts as having what it was sent, before it asks for more",
        "replication",
        "tidelog.replication.follower_state:FollowerState.record_fetch",
        "self.log_end_offset = fetch_offset",
        "self.log_end_offset = leader_end_offset",
    ),
    mistake(
        "the answer to a former proposal becomes the ISR",
        "replication",
        f"{_REPLICA_SET}.accept",
        "self.pending is not proposal\n        or altered.leader_epoch != leader_epoch\n"
        "        or altered.partition_epoch < self.partition_epoch",
        "False",
    ),
    mistake(
        "a broker obeys a LeaderAndIsr of a former leader epoch",
        "replication",
        f"{_ROLES}:RoleChanges._become",
        "state.leader_epoch <= partition.leader_epoch",
        "False",
        (f"{_PARTITION}.become_leader", "if state.partition_epoch < replica_set.partition_epoch:", "if False:"),
        (f"{_PARTITION}.become_follower", "if state.partition_epoch < self.replica_set.partition_epoch:", "if False:"),
    ),
)
