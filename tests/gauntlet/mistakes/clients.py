"""Mistakes of the clients: sequences of retries, transactions, what a consumer may do after it has lost a partition."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.planting import mistake

_SEQUENCES: Final = "tidelog.client.aio.producer.sequences:SequenceTracker"
_TRANSACTIONS: Final = "tidelog.client.aio.producer.transactions:Transactions"

MISTAKES: Final = (
    mistake(
        "a retried batch gets a new sequence number",
        "client",
        f"{_SEQUENCES}.assign",
        "    if batch.has_sequence:\n        return\n",
        "    if batch in partition.in_flight:\n        partition.in_flight.remove(batch)\n",
    ),
    mistake(
        "a commit does not wait for the records of its transaction",
        "client",
        f"{_TRANSACTIONS}.end",
        "await settle()",
        "pass",
    ),
    mistake(
        "a transaction commits although one of its batches was lost",
        "client",
        f"{_TRANSACTIONS}.fail",
        "if self.status.state is not State.ABORTING:",
        "if False:",
    ),
    mistake(
        "a consumer shows the records of aborted transactions",
        "client",
        "tidelog.client.aio.consumer.aborted:AbortedFilter.covers",
        "return header.is_transactional and header.producer_id in self._active",
        "return False",
    ),
    mistake(
        "an aborted transaction hides what its producer writes after it",
        "client",
        "tidelog.client.aio.consumer.aborted:AbortedFilter.pass_marker",
        "self._active.pop(header.producer_id, None)",
        "pass",
    ),
    mistake(
        "a consumer commits partitions that it has lost",
        "client",
        "tidelog.client.aio.consumer.coordinator:GroupCoordinator._give_up_all",
        "self._subscription.assign_from_group(())",
        "pass",
    ),
    mistake(
        "a consumer that was fenced keeps its partitions",
        "client",
        "tidelog.client.aio.consumer.heartbeat_coordinator:HeartbeatCoordinator.step",
        "if self.membership.stable_generation is None:",
        "if False:",
        (
            "tidelog.client.aio.consumer.heartbeat_coordinator:HeartbeatCoordinator._until_given_up",
            "while self._subscription.partitions and",
            "while False and",
        ),
    ),
    mistake(
        "a client believes the leader of a topic that was deleted and created again",
        "client",
        "tidelog.client.aio.metadata:_newer",
        "same_topic = known is not None and known.topic_id == response.topic_id",
        "same_topic = known is not None",
        known="KAFKA-12257",
    ),
    mistake(
        "a client follows metadata that is older than what it knows",
        "client",
        "tidelog.client.aio.metadata:_newer",
        "NO_EPOCH < each.leader_epoch < before[index].leader_epoch",
        "False",
        known="KIP-320",
    ),
    mistake(
        "a commit is taken as done when it was refused",
        "client",
        "tidelog.client.aio.consumer.commits:OffsetCommits._refused",
        "code = error_code_of(error_code)",
        "return",
    ),
)
