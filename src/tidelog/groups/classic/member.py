"""One member of a group with the classic protocol."""

from __future__ import annotations

from collections.abc import Container
from typing import TypeAlias

from tidelog.coordination import Respond

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""The protocols of a member, the preferred one first, each with metadata that only the group's leader reads."""


class Member:
    """State of one member. `Group` owns it and keeps its counts in step.

    A member waits in JoinGroup until all members have joined and in SyncGroup until the assignment is stored: meanwhile
    `awaiting_join` or `awaiting_sync` holds the callback of its request.
    """

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: Respond | None = None
        self.awaiting_sync: Respond | None = None
        self.is_new = False

    def metadata(self, protocol_name: str) -> bytes:
        """The metadata of a protocol that it supports."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support protocol {protocol_name}")

    def vote(self, candidates: Container[str]) -> str:
        """The candidate it prefers."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports none of {candidates}")

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a response and need not send heartbeats; a new member still has its session timeout."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)
