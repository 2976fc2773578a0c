"""The context of a request: the node that serves it and the client's session.

One is made for each request that is decoded into a message; Produce and Fetch do without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from tidelog.security.acls import CLUSTER_NAME, OPERATIONS, AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.client_quotas import MutationQuota
    from tidelog.broker.requests.routes import Route
    from tidelog.broker.serving.node import Node
    from tidelog.network.connection import Slot
    from tidelog.network.session import Session


_DENIED: Final[Mapping[AclResourceType, ErrorCode]] = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}

_EVERYTHING: Final = {kind: sum(1 << each for each in operations) for kind, operations in OPERATIONS.items()}
"""The operations of each type as a bit set, for clients that ask where no authorizer is set (KIP-430)."""


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedT = TypeVar("NamedT", bound=_Named)


class ClientLeft(Exception):  # noqa: N818 -- an event, not an error of the broker
    """The client closed its connection, so the rest of the work on its request is not needed."""


class Context:
    """The context of one request."""

    __slots__ = ("api_version", "client_id", "correlation_id", "node", "route", "slot")

    def __init__(
        self, node: Node, slot: Slot, route: Route, api_version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.node = node
        self.slot = slot
        self.route = route
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    async def pause(self) -> None:
        """Let others be served if this request has used up its slice of the loop's turn (`broker.runtime.slices`).

        Raises `ClientLeft` when the connection was closed. Requests that change something, and must not stop
        half-way, await `node.slices.pause()` instead.
        """
        await self.node.slices.pause()
        if self.slot.connection.is_closed:
            raise ClientLeft

    def mutation_quota(self, strict_from: int | None = None) -> MutationQuota:
        """The quota that changes of topics are taken from. From a version on, clients know its error."""
        is_strict = strict_from is not None and self.api_version >= strict_from
        return self.node.client_quotas.mutation_quota(self.slot.connection, is_strict=is_strict)

    @property
    def session(self) -> Session:
        """The client's session. Produce and Fetch find it at `slot.connection.session`."""
        return self.slot.connection.session

    # --- what the client may do; everything, where no authorizer is set ---

    def is_allowed(
        self,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str = CLUSTER_NAME,
        *,
        is_logged: bool = True,
    ) -> bool:
        """`is_logged` is False where a denial only leaves something out of an answer."""
        access = self.node.access
        return access is None or access.allows(self.session, operation, resource_type, name, is_logged=is_logged)

    def check_allowed(self, operation: AclOperation, resource_type: AclResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise the error of a resource that the client may not use."""
        if not self.is_allowed(operation, resource_type, name):
            raise ApiError(_DENIED[resource_type])

    def divide_topics(self, operation: AclOperation, topics: list[NamedT]) -> tuple[list[NamedT], list[NamedT]]:
        """The topics of a request that the client may use, and the others."""
        if self.node.access is None:
            return topics, []
        denied = self.denied_topics(operation, (topic.name for topic in topics))
        return (
            [topic for topic in topics if topic.name not in denied],
            [topic for topic in topics if topic.name in denied],
        )

    def denied_topics(self, operation: AclOperation, names: Iterable[str]) -> frozenset[str]:
        """Those of the topics that the client may not use."""
        if self.node.access is None:
            return frozenset()
        return frozenset(
            name for name in dict.fromkeys(names) if not self.is_allowed(operation, AclResourceType.TOPIC, name)
        )

    def operations_allowed(self, resource_type: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """What the client may do to a resource, as a bit set (KIP-430)."""
        access = self.node.access
        return _EVERYTHING[resource_type] if access is None else access.operations(self.session, resource_type, name)
