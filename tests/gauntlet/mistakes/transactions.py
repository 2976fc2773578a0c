"""Mistakes of transactions and of idempotent producers, at the coordinator and in the logs."""

from __future__ import annotations

from typing import Final

from tests.gauntlet.planting import mistake

_SHARD: Final = "tidelog.transactions.shard:TransactionShard"
_PRODUCERS: Final = "tidelog.storage.producers.state:ProducerStateManager"

MISTAKES: Final = (
    mistake(
        "a log takes a batch of an old producer epoch",
        "producers",
        f"{_PRODUCERS}.check",
        "if epoch < entry.producer_epoch:",
        "if False:",
        (
            f"{_PRODUCERS}._check_sequence",
            "if first_sequence != expected:",
            "if epoch >= entry.producer_epoch and first_sequence != expected:",
        ),
    ),
    mistake(
        "a log takes a marker of a coordinator that was replaced",
        "producers",
        f"{_PRODUCERS}.check_marker",
        "entry.coordinator_epoch > coordinator_epoch",
        "False",
    ),
    mistake(
        "a retried batch is appended again",
        "producers",
        "tidelog.storage.producers._entry:ProducerEntry.find_duplicate",
        "if producer_epoch == self.producer_epoch:",
        "if False:",
        (f"{_PRODUCERS}._check_sequence", "if first_sequence != expected:", "if False:"),
    ),
    mistake(
        "a batch with a gap before it is appended",
        "producers",
        f"{_PRODUCERS}._check_sequence",
        "if first_sequence != expected:",
        "if False:",
    ),
    mistake(
        "a transaction's batch is appended without verification",
        "producers",
        f"{_PRODUCERS}.check_verified",
        "if not self.is_verified(producer_id, header.producer_epoch, guard):",
        "if False:",
        (
            "tidelog.transactions.shard:TransactionShard.verify",
            "else ErrorCode.TRANSACTION_ABORTABLE",
            "else ErrorCode.NONE",
        ),
        known="KIP-890, KAFKA-14402",
    ),
    mistake(
        "the last stable offset passes open transactions",
        "producers",
        "tidelog.storage.log._positions:Positions.last_stable_offset",
        "if not state.ongoing and not state.unreplicated:",
        "if True:",
    ),
    mistake(
        "a transaction is stable before its marker is committed",
        "producers",
        f"{_PRODUCERS}.complete",
        "self.unreplicated[completed.first_offset] = completed.last_offset",
        "pass",
    ),
    mistake(
        "an aborted transaction is not put into the index",
        "storage",
        "tidelog.storage.log._appender:Appender._end_transaction",
        "if completed.is_aborted:",
        "if False:",
    ),
    mistake(
        "a coordinator answers a producer that was replaced",
        "transactions",
        "tidelog.transactions.endings:check_producer",
        "if current.producer_epoch != producer.producer_epoch:",
        "if False:",
    ),
    mistake(
        "a new producer gets the epoch of the one before it",
        "transactions",
        "tidelog.transactions.producers:_next_epoch",
        "return current.producer_epoch + 1, NO_PRODUCER_EPOCH",
        "return current.producer_epoch, NO_PRODUCER_EPOCH",
    ),
    mistake(
        "markers are written before the outcome is committed",
        "transactions",
        f"{_SHARD}._prepare",
        "return Decision(records=self._records(*prepared), then=then)",
        "decision = Decision(records=self._records(*prepared))\n"
        "    for transaction in prepared:\n        self._carry_out(transaction)\n"
        "    return decision",
        known="KAFKA-5385",
    ),
    mistake(
        "a coordinator that moves forgets the markers that are missing",
        "transactions",
        f"{_SHARD}.on_loaded",
        "if transaction.state.is_prepared]",
        "if False]",
    ),
    mistake(
        "a transaction is complete with its first marker",
        "transactions",
        "tidelog.transactions.markers:MarkerProgress.is_done",
        "return not self.to_write",
        "return self.to_write < set(self.order.partitions) or not self.to_write",
    ),
    mistake(
        "a transaction that times out does not fence its producer",
        "transactions",
        f"{_SHARD}._abort_timed_out",
        "producers.fenced_and_aborted(each, new_id, now_ms, level)",
        "each.ended(False, now_ms)",
    ),
    mistake(
        "transactions that were open when their coordinator moved never time out",
        "transactions",
        f"{_SHARD}.on_loaded",
        "    if self._ongoing:\n",
        "    if False:\n",
        (f"{_SHARD}._timeout_search", "if self._is_timeout_search_set:", "if self._ongoing:"),
    ),
    mistake(
        "a producer that was replaced is told its successor's commit is its own",
        "transactions",
        "tidelog.transactions.endings:_is_repeated",
        "current.protocol < EPOCH_BUMPS_FROM or current.state in",
        "current.state in",
    ),
)
