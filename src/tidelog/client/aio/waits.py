"""Everything that waits in a client, and what ends each wait.

A wait must be ended by something that is still to come. A state that waits for an event which was handled before the
state was entered waits for ever, or until something unrelated wakes its client. So no wait below relies on the order in
which events are handled: after every event the owner asks what is due until nothing is, and `WAITS` says for
everything else what is still to come. `tests/property/client/test_waits.py` drives each owner through random events and
looks for that after each.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class WakeUp(Enum):
    """What ends a wait."""

    REPLY = "a request is under way; its reply, its failure or its timeout calls back"
    TASK = "a task is running; its end calls back"
    TIMER = "a time that the owner looks again at"
    METADATA = "metadata was requested, which is repeated until a reply comes; that calls back"
    LINK = "a link connects, is throttled or is full, and calls back at its next change"
    CALLER = "a call of the application: it waits for none of these"


class Wait(Enum):
    """What is kept waiting, and why."""

    # Partitions of a consumer (`PartitionState`, `FetchPlan`).
    COMMITTED_OFFSET = "a partition without a position: OffsetFetch"
    RESET = "a partition without a position: ListOffsets"
    VALIDATION = "a position that a new leader has to confirm: OffsetForLeaderEpoch"
    POSITION_RETRY = "a question about a position, or a fetch, failed"
    FETCH = "a fetch from this position, or both channels to the broker are in use"
    FETCH_LEADER = "a partition without a reachable leader"
    FETCH_CONNECTION = "the connection to the leader is not ready"
    FETCHED = "two fetches of the partition, or of another one of its broker, wait to be polled"
    PAUSED = "a paused partition"
    REVOCATION = "a partition about to be given up: the commit before that"
    # The membership of a consumer.
    JOIN = "JoinGroup and SyncGroup"
    ASSIGNMENT = "a heartbeat that brings the assignment"
    COMMIT = "an automatic or asynchronous commit, and the callback of the latter"
    # Batches of a producer (`Accumulator.wait_of`).
    LINGER = "a batch that may still grow"
    BATCH_RETRY = "a batch that was refused for now"
    BATCH_LEADER = "a batch whose partition has no leader"
    BATCH_CONNECTION = "a batch that is due, and the connection to the leader is not ready"
    MUTED = "a batch behind another one in flight, with one request at a time"
    IDENTITY = "a batch without a producer id: InitProducerId"
    TRANSACTION = "a batch whose partition is not in the transaction: AddPartitionsToTxn, or the application's abort"
    SEQUENCE = "a batch behind others of its partition whose results are not known"
    MEMORY = "a call that sends, until batches are done or max.block.ms have passed"
    # Requests of every client, an admin's included (`Link`, `BrokerConnection`, `Driver`).
    IN_FLIGHT = "a reply"
    CONNECT = "a connection being opened, after the back-off"
    PLACE = "a place in flight, or the replacement of a connection whose session ends"
    THROTTLE = "the end of a throttle time"
    COORDINATOR = "FindCoordinator"
    BROKERS = "an operation's brokers, or the metadata that names them"
    OPERATION_RETRY = "an operation that failed for now"


WAITS: Final[Mapping[Wait, frozenset[WakeUp]]] = {
    wait: frozenset(ends)
    for wait, ends in (
        (Wait.COMMITTED_OFFSET, {WakeUp.TASK}),
        (Wait.RESET, {WakeUp.TASK}),
        (Wait.VALIDATION, {WakeUp.TASK}),
        (Wait.POSITION_RETRY, {WakeUp.TIMER}),
        (Wait.FETCH, {WakeUp.REPLY}),
        (Wait.FETCH_LEADER, {WakeUp.METADATA}),
        (Wait.FETCH_CONNECTION, {WakeUp.LINK}),
        (Wait.FETCHED, {WakeUp.CALLER}),
        (Wait.PAUSED, {WakeUp.CALLER}),
        (Wait.REVOCATION, {WakeUp.TASK}),
        (Wait.JOIN, {WakeUp.TASK}),
        (Wait.ASSIGNMENT, {WakeUp.REPLY, WakeUp.TIMER}),
        (Wait.COMMIT, {WakeUp.TASK}),
        (Wait.LINGER, {WakeUp.TIMER}),
        (Wait.BATCH_RETRY, {WakeUp.TIMER}),
        (Wait.BATCH_LEADER, {WakeUp.METADATA}),
        (Wait.BATCH_CONNECTION, {WakeUp.LINK}),
        (Wait.MUTED, {WakeUp.REPLY}),
        (Wait.IDENTITY, {WakeUp.TASK}),
        (Wait.TRANSACTION, {WakeUp.TASK, WakeUp.CALLER}),
        (Wait.SEQUENCE, {WakeUp.REPLY, WakeUp.TIMER}),
        (Wait.MEMORY, {WakeUp.REPLY, WakeUp.TIMER}),
        (Wait.IN_FLIGHT, {WakeUp.REPLY, WakeUp.TIMER}),
        (Wait.CONNECT, {WakeUp.TASK}),
        (Wait.PLACE, {WakeUp.REPLY, WakeUp.LINK}),
        (Wait.THROTTLE, {WakeUp.TIMER}),
        (Wait.COORDINATOR, {WakeUp.TASK}),
        (Wait.BROKERS, {WakeUp.METADATA, WakeUp.TIMER}),
        (Wait.OPERATION_RETRY, {WakeUp.TIMER}),
    )
}
