"""What clients of this broker may do, by the ACLs in the metadata tree. There is one only where an authorizer is set.

ACLs are read when the broker starts and again whenever a change is announced. A change made here takes effect before
its client has the answer. Decisions are written to the logger `kafka.authorizer.logger`: denials at INFO, the rest at
DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from tidelog.broker.configuration.announced_changes import AnnouncedChanges
from tidelog.metadata.acls import (
    EXTENDED_CHANGES,
    LITERAL_CHANGES,
    Entries,
    all_entries,
    change_entries,
    prepare_acl_nodes,
    read_entries,
)
from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.security.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    AccessControlEntry,
    AclOperation,
    AclResourceType,
    ResourcePattern,
)
from tidelog.security.authorizer import AclAuthorizer

if TYPE_CHECKING:
    from tidelog.config import BrokerConfig
    from tidelog.metadata.store import Store
    from tidelog.metadata.store_queue import StoreQueue
    from tidelog.network.session import Session

logger = logging.getLogger(__name__)
audit_logger = logging.getLogger("kafka.authorizer.logger")
audit_logger.addFilter(LogRateLimit())


class TopicFilter(NamedTuple):
    """The topics that a principal may describe from a host, by the ACLs as they are when it is asked."""

    authorizer: AclAuthorizer
    principal: str
    host: str

    def allows(self, topic: str) -> bool:
        return self.authorizer.is_allowed(
            self.principal, self.host, AclOperation.DESCRIBE, AclResourceType.TOPIC, topic
        )


class Access:
    """The authorizer of one broker and its listener on the tree."""

    def __init__(self, config: BrokerConfig, metadata: StoreQueue, wall_ms: Callable[[], int]) -> None:
        self._metadata = metadata
        self.authorizer = _new_authorizer(config)
        self._changes = [
            AnnouncedChanges("ACLs", announcements, metadata, wall_ms, self._follow)
            for announcements in (LITERAL_CHANGES, EXTENDED_CHANGES)
        ]

    # --- decisions ---

    def allows(
        self,
        session: Session,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str = CLUSTER_NAME,
        *,
        is_logged: bool = True,
    ) -> bool:
        """`is_logged` is False where a denial only leaves something out of an answer."""
        is_allowed = self.authorizer.is_allowed(session.principal, session.address, operation, resource_type, name)
        if is_logged and (not is_allowed or audit_logger.isEnabledFor(logging.DEBUG)):
            _log(session, operation, resource_type, name, is_allowed=is_allowed)
        return is_allowed

    def allows_on_any(self, session: Session, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Whether there is any resource of a type that the operation is allowed on."""
        is_allowed = self.authorizer.is_allowed_on_any(session.principal, session.address, operation, resource_type)
        _log(session, operation, resource_type, "any", is_allowed=is_allowed)
        return is_allowed

    def operations(self, session: Session, resource_type: AclResourceType, name: str = CLUSTER_NAME) -> int:
        """The operations allowed on a resource, as a bit set (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS[resource_type]
            if self.allows(session, operation, resource_type, name, is_logged=False)
        )

    def topic_filter(self, session: Session) -> TopicFilter:
        """Which topics a client may describe, for as long as it is asked."""
        return TopicFilter(self.authorizer, session.principal, session.address)

    # --- changes ---

    def start(self, store: Store) -> None:
        """Read all ACLs, and follow their changes from now on."""
        prepare_acl_nodes(store)
        for changes in self._changes:
            changes.start(store)
        for resource, entries in all_entries(store):
            self.authorizer.replace(resource, entries)

    async def change(
        self, resource: ResourcePattern, change: Callable[[Entries], Iterable[AccessControlEntry]]
    ) -> None:
        """Change the entries of a resource in the tree and here."""
        entries = await self._metadata.run(change_entries, resource, change)
        self.authorizer.replace(resource, entries)

    def look(self) -> None:
        """Follow what has changed, soon, and watch for more."""
        for changes in self._changes:
            changes.look()

    async def _follow(self, resource: ResourcePattern) -> None:
        self.authorizer.replace(resource, await self._metadata.run(read_entries, resource))


def _new_authorizer(config: BrokerConfig) -> AclAuthorizer:
    super_users = [each.strip() for each in config.super_users.split(";") if each.strip()]
    return AclAuthorizer(super_users, allows_unlisted=config.allow_everyone_if_no_acl_found)


def _log(
    session: Session, operation: AclOperation, resource_type: AclResourceType, name: str, *, is_allowed: bool
) -> None:
    audit_logger.log(
        logging.DEBUG if is_allowed else logging.INFO,
        "principal %s is %s: operation %s from host %s on %s:%s",
        session.principal,
        "allowed" if is_allowed else "denied",
        operation.name,
        session.address,
        resource_type.name,
        name,
    )
