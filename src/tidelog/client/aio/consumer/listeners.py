"""The hooks of a consumer: rebalance listener and interceptors.

Methods may be plain or `async` under `AsyncConsumer`; under `Consumer` they are plain, and called in the thread that
called the consumer.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from tidelog.client.aio.consumer.types import ConsumerRecords
from tidelog.client.types import OffsetAndMetadata, TopicPartition

Partitions = Sequence[TopicPartition]


Invoke = Callable[..., Awaitable[None]]
"""Calls a function of the application's with arguments: in the loop, or in the thread that called the consumer."""


async def call_here(function: Callable[..., object], *arguments: object) -> None:
    """Call a function of the application's in the loop; wait for it, if it is a coroutine function."""
    outcome = function(*arguments)
    if hasattr(outcome, "__await__"):
        await outcome


async def call_listener(
    invoke: Invoke, method: Callable[..., Any], partitions: Sequence[TopicPartition]
) -> Exception | None:
    """Call a method of a listener; what it raises must not stop the rebalance half-way, and is returned."""
    try:
        await invoke(method, partitions)
    except Exception as error:  # noqa: BLE001 - code of the application; the caller raises it
        return error
    return None


class RebalanceListener:
    """Called inside `poll` (or `close`, `unsubscribe`) when partitions are assigned or revoked. All are optional."""

    def on_assigned(self, partitions: Partitions) -> Awaitable[None] | None:
        """`partitions` are new; seek here."""

    def on_revoked(self, partitions: Partitions) -> Awaitable[None] | None:
        """`partitions` will be revoked; commit here."""

    def on_lost(self, partitions: Partitions) -> Awaitable[None] | None:
        """`partitions` are gone: others may be reading them, so nothing can be committed any more."""
        return self.on_revoked(partitions)


class ConsumerInterceptor(Protocol):
    """Sees records before the application does, and commits after they are done."""

    def on_consume(self, records: ConsumerRecords[Any, Any]) -> ConsumerRecords[Any, Any]:
        """What `poll` is about to return; returns what it shall return instead."""

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These offsets were committed."""

    def close(self) -> None:
        """The consumer is closed."""
