"""Authorized operations as bit sets, for clients that ask (KIP-430)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.security.acls import AclOperation, AclResourceType

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context

NOT_ASKED: Final = -(2**31)


def cluster_operations(is_asked: bool, context: Context) -> int:
    """Of the cluster; none for a client that may not describe it."""
    if not is_asked:
        return NOT_ASKED
    if not context.is_allowed(AclOperation.DESCRIBE, AclResourceType.CLUSTER):
        return 0
    return context.operations_allowed(AclResourceType.CLUSTER)
