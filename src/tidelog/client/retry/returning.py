"""What the retry service does with a record of a retry topic: how long it waits, and where it goes then. Pure.

A consumer with a `RetryPolicy` has decided both and says so in headers. Any other consumer only has to write a failed
record to the retry topic, with the headers that it came with: the service counts the failures in `tidelog.attempts` and
applies delays of its own.
"""

from collections.abc import Iterable
from typing import Any, Final

from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.client.retry.headers import ATTEMPTS, DUE_MS, ORIGIN_PARTITION, RETURN_TOPIC, Header
from tidelog.client.retry.policy import DEAD, SERVED, RetryPolicy, rung_of
from tidelog.client.retry.redis_queue import ArrivedRecord, WaitingRecord

_DIGITS_MAX: Final = 18


def arrival(row: ConsumerRecord[Any, Any], policy: RetryPolicy) -> ArrivedRecord:
    """The record as it waits. The same record always gives the same."""
    found = dict(row.headers)
    stem = row.topic.removesuffix(SERVED)
    topic = _text(found.get(RETURN_TOPIC)) or stem
    due_ms = _number(found.get(DUE_MS))
    partition = _number(found.get(ORIGIN_PARTITION))
    # A due time that is over must not come back with the record when it fails again.
    headers = _without(row.headers, DUE_MS)
    if due_ms is None:
        attempts = (_number(found.get(ATTEMPTS)) or 0) + 1
        rung = rung_of(attempts, policy.attempts_max, len(policy.delays_ms))
        headers = (*_without(headers, ATTEMPTS), (ATTEMPTS, str(attempts).encode()))
        due_ms = max(row.timestamp, 0)
        if rung is None:
            topic, headers, partition = policy.dead_letters or stem + DEAD, _without(headers, RETURN_TOPIC), None
        else:
            due_ms += policy.delays_ms[rung]
    record = WaitingRecord(topic, row.value, row.key, headers, partition)
    # With the timestamp, because a topic that is created again has the same offsets.
    return ArrivedRecord(row.offset, f"{row.topic}/{row.partition}/{row.offset}/{row.timestamp}", due_ms, record)


def _without(headers: Iterable[Header], name: str) -> tuple[Header, ...]:
    return tuple([each for each in headers if each[0] != name])


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _number(value: bytes | None) -> int | None:
    """A whole number; None for anything else, as any program may write these headers."""
    return int(value) if value is not None and value.isdigit() and len(value) <= _DIGITS_MAX else None
