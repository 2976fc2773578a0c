"""What drivers take and give."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

CREATE_TIME = 0
LOG_APPEND_TIME = 1
DEADLINE_S = 20.0
"""How long any call may take; nothing here takes a second on an idle machine."""

Headers = tuple[tuple[str, bytes | None], ...]


class Message(NamedTuple):
    """A record to be produced."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None


class Stored(NamedTuple):
    """A record as it was read."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers


class Refused(Exception):
    """The broker, or the client on its behalf, refused; `code` is Kafka's error code."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(f"error {code}: {text}")
        self.code = code


class Driver(Protocol):
    """A client library."""

    @property
    def name(self) -> str: ...

    def has_codec(self, codec: str) -> bool:
        """Whether the client can compress and decompress so, as installed here."""

    def produce(
        self,
        servers: str,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool | None = None,
        batch_bytes: int = 1 << 20,
    ) -> list[int]:
        """Produce in order and return the offsets (negative ones with acks=0); raises Refused.

        `idempotent` None leaves it to the client, as most programs do.
        """

    def consume(
        self,
        servers: str,
        topic: str,
        count: int,
        *,
        partition: int = 0,
        offset: int = 0,
        isolation: str = "read_uncommitted",
        partition_bytes: int = 1 << 20,
    ) -> list[Stored]:
        """Read `count` records from `offset` on; fails when they are not there within the deadline."""

    def watermarks(self, servers: str, topic: str, *, partition: int = 0) -> tuple[int, int]:
        """The first offset, and the one after the last."""

    def offset_for_time(self, servers: str, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        """The offset of the first record at or after a time; None when there is none."""
