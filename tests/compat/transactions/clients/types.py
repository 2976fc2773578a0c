"""What all of them can do, in the same words."""

from contextlib import AbstractContextManager
from typing import Protocol

DEADLINE_S = 20.0


class Fenced(Exception):
    """The client says that it can go on no more: another producer has its transactional id, or time was up."""


class TransactionalProducer(Protocol):
    """One producer that has its transactional id."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: bytes) -> int:
        """Send a record, wait until it is acknowledged, return its offset. Raises Fenced."""

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit the offset of a group with the transaction."""

    def commit(self) -> None:
        """Raises Fenced."""

    def abort(self) -> None: ...


class Client(Protocol):
    """A client library."""

    @property
    def name(self) -> str: ...

    def producer(
        self, servers: str, transactional_id: str, *, timeout_ms: int = 30_000
    ) -> AbstractContextManager[TransactionalProducer]:
        """A producer after its `init_transactions`."""
