"""Which states of the protocol the seeds of a run have reached, so that what is never reached is seen.

Three kinds are counted while simulated brokers and clients run: every transition of the state machines of groups and
transactions, by their own tables; every state of a follower's replication; and branches that a simulator has to reach
to be worth something, named in `_PROBES`. A name that is counted in no seed of a long run is printed by
`python -m tidelog.testing.simulation`: the simulator is blind there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from typing import Any, Final, NamedTuple

from tidelog.client.aio.producer.sequences import SequenceTracker
from tidelog.controller.reassignments import Reassignments
from tidelog.controller.topic_deletion import TopicDeletionManager
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.groups.classic import group as classic_group
from tidelog.groups.classic.states import TRANSITIONS as GROUP_TRANSITIONS
from tidelog.groups.offsets import OffsetStore
from tidelog.replication.fetcher import Fetcher, FetchState
from tidelog.replication.partition import Partition
from tidelog.replication.replica_set import ReplicaSet
from tidelog.storage.loading.loader import _LogLoader
from tidelog.storage.log import Log
from tidelog.storage.producers.state import ProducerEntry, ProducerStateManager
from tidelog.testing.simulation.replacing import replaced
from tidelog.transactions import transaction
from tidelog.transactions.shard import TransactionShard
from tidelog.transactions.states import TRANSITIONS as TRANSACTION_TRANSITIONS
from tidelog.transactions.states import TransactionEvent

_NEEDS_DAYS: Final = frozenset({TransactionEvent.EXPIRED})
"""What no seed lives long enough for: unit tests have it."""


class _Probe(NamedTuple):
    """A function whose call is a state of interest, if `is_it` says so of its result."""

    name: str
    owner: Any
    function: str
    is_it: Callable[[Any], bool] = lambda _result: True


def _is_something(result: Any) -> bool:
    return result is not None


_PROBES: Final = (
    _Probe("a proposal for the ISR is accepted", ReplicaSet, "accept", bool),
    _Probe("an answer to a former proposal is passed over", ReplicaSet, "accept", lambda accepted: not accepted),
    _Probe("a proposal for the ISR is refused", ReplicaSet, "refuse"),
    _Probe("an ISR is to shrink", ReplicaSet, "propose_shrinking", _is_something),
    _Probe("too few replicas are left after an append", Partition, "shortage", _is_something),
    _Probe("a follower cuts its log where its leader's parts from it", Fetcher, "_cut_at"),
    _Probe("a log is truncated", Log, "truncate_to"),
    _Probe("a log begins again at its leader's start", Log, "truncate_fully_and_start_at"),
    _Probe("a segment is read and indexed again", _LogLoader, "_rebuild"),
    _Probe("a segment is cut at a damaged batch", _LogLoader, "_rebuild", bool),
    _Probe("segments behind a damaged batch are dropped", _LogLoader, "_drop"),
    _Probe("the producers of a log are rebuilt", _LogLoader, "_load_producers"),
    _Probe("a batch is found to be a duplicate", ProducerEntry, "find_duplicate", _is_something),
    _Probe("a transaction of a log is completed", ProducerStateManager, "complete"),
    _Probe("a coordinator loads a partition", CoordinatorRuntime, "finish_load"),
    _Probe("a coordinator loads a partition that is not wholly committed", CoordinatorRuntime, "_answer_when_certain"),
    _Probe("a log rejects what a coordinator decided", CoordinatorRuntime, "_refused"),
    _Probe("a transaction is retried by its coordinator", TransactionShard, "_retry"),
    _Probe("transactions are looked through for timeouts", TransactionShard, "_abort_timed_out"),
    _Probe("offsets of a transaction take effect or are dropped", OffsetStore, "end_transaction"),
    _Probe("a reassignment begins", Reassignments, "_begin"),
    _Probe("a reassignment is completed", Reassignments, "_complete"),
    _Probe("the deletion of a topic is put off", TopicDeletionManager, "mark_ineligible"),
    _Probe("a deleted topic is gone", TopicDeletionManager, "_complete"),
    _Probe("a producer sends batches again under a new epoch", SequenceTracker, "take_identity"),
)


def _transition(kind: str, state: Enum, event: Enum) -> str:
    return f"{kind}: {state.value} when {event.name.lower().replace('_', ' ')}"


def consumer_state(state_name: str) -> str:
    """The name under which a state of a consumer group is counted: it has no transitions of its own."""
    return f"consumer group: {state_name}"


_CONSUMER_STATES: Final = ("Empty", "Assigning", "Reconciling", "Stable")

EXPECTED_STATES: Final = (
    *(_transition("group", state, event) for state, event in GROUP_TRANSITIONS),
    *(_transition("transaction", state, event) for state, event in TRANSACTION_TRANSITIONS if event not in _NEEDS_DAYS),
    *(f"follower: {state.value}" for state in FetchState),
    *(consumer_state(state) for state in _CONSUMER_STATES),
    *(probe.name for probe in _PROBES),
)
"""What every run of very many seeds should reach."""


@contextmanager
def counting_states(counts: Counter[str]) -> Iterator[None]:
    """Count the states that are reached."""
    with ExitStack() as undo:
        for module, kind in ((classic_group, "group"), (transaction, "transaction")):
            undo.enter_context(replaced(module, "advance", _counted_advance(module.advance, kind, counts)))
        undo.enter_context(replaced(Fetcher, "_set_state", _counted_fetching(counts)))
        for probe in _PROBES:
            # Several probes of one function are put around each other.
            undo.enter_context(replaced(probe.owner, probe.function, _counted(probe, counts)))
        yield


def _counted_advance(advance: Callable[[Any, Any], Any], kind: str, counts: Counter[str]) -> Callable[[Any, Any], Any]:
    def counted(state: Any, event: Any) -> Any:
        following = advance(state, event)
        counts[_transition(kind, state, event)] += 1
        return following

    return counted


def _counted_fetching(counts: Counter[str]) -> Callable[..., None]:
    set_state: Any = Fetcher._set_state

    def counted(fetcher: Fetcher, followed: Any, state: FetchState) -> None:
        counts[f"follower: {state.value}"] += 1
        set_state(fetcher, followed, state)

    return counted


def _counted(probe: _Probe, counts: Counter[str]) -> Callable[..., Any]:
    function = getattr(probe.owner, probe.function)

    def counted(*arguments: Any, **named: Any) -> Any:
        result = function(*arguments, **named)
        if probe.is_it(result):
            counts[probe.name] += 1
        return result

    return counted
