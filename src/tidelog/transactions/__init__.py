"""Transactions: who may write under a transactional id, what belongs to its open transaction, and how that ends.

`TransactionShard` is the core of the transaction coordinator: one for each partition of `__transaction_state`. The
runtime of `coordination` carries out its decisions; `broker.coordinators.transactions` is the edge that gives it a log,
a clock and a writer of markers. The room does no I/O.
"""

from tidelog.transactions.markers import MarkerOrder, MarkerSender
from tidelog.transactions.shard import TransactionSettings, TransactionShard
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction

__all__ = [
    "MarkerOrder",
    "MarkerSender",
    "Transaction",
    "TransactionSettings",
    "TransactionShard",
    "TransactionState",
]
