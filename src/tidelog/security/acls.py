"""Access control entries, the resources they are about, and the filters that find them, as Kafka defines them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.security.addresses import canonical_address

WILDCARD: Final = "*"
"""Every resource of a type, as the name of a literal pattern; every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class AclResourceType(IntEnum):
    """By its number on the wire."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    ANY = 1
    MATCH = 2
    """In a filter: every pattern that applies to the resource named."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclPermissionType(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS: Final[Mapping[AclResourceType, tuple[AclOperation, ...]]] = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    # Those of settings since Kafka 4.0: groups have none before.
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
    AclResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    AclResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""What can be done to a resource of each type."""


class ResourcePattern(NamedTuple):
    """A pattern that names resources: one, all (`*`), or those whose names begin with a prefix."""

    type: AclResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL


class AccessControlEntry(NamedTuple):
    """Whether a principal may do something from a host."""

    principal: str
    host: str
    operation: AclOperation
    permission: AclPermissionType

    def applies(self, principal: str, host: str) -> bool:
        """`host` is an address in its canonical text; that of the entry may be another text of it."""
        return self.principal in (principal, WILDCARD_PRINCIPAL) and (
            self.host in (host, WILDCARD) or canonical_address(self.host) == host
        )


class AclBinding(NamedTuple):
    resource: ResourcePattern
    entry: AccessControlEntry


class AclBindingFilter(NamedTuple):
    """Finds bindings. None and ANY match everything."""

    type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermissionType = AclPermissionType.ANY

    def matches_resource(self, resource: ResourcePattern) -> bool:
        if self.type not in (AclResourceType.ANY, resource.type):
            return False
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, resource.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is not PatternType.MATCH:
            return self.name == resource.name
        if resource.pattern is PatternType.LITERAL:
            return resource.name in (self.name, WILDCARD)
        return self.name.startswith(resource.name)

    def matches_entry(self, entry: AccessControlEntry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (AclOperation.ANY, entry.operation)
            and self.permission in (AclPermissionType.ANY, entry.permission)
        )


def problem_of(binding: AclBinding) -> str | None:
    """Why brokers refuse to create a binding, if they do. In Kafka's words, where it has some."""
    resource, entry = binding
    if resource.type is AclResourceType.ANY or resource.pattern in (PatternType.ANY, PatternType.MATCH):
        return f"{resource.type.name}:{resource.pattern.name} is for filters; an ACL names a resource and its pattern"
    if entry.operation is AclOperation.ANY or entry.permission is AclPermissionType.ANY:
        return "an ACL allows or denies an operation; ANY is for filters"
    if resource.type is AclResourceType.CLUSTER and resource.name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not resource.name:
        return "Invalid empty resource name"
    if "/" in resource.name:
        return f"the resource's name {resource.name!r} has a slash"
    if not entry.principal.partition(":")[0] or ":" not in entry.principal:
        return _no_principal(entry.principal)
    return None


def _no_principal(text: str) -> str:
    return f"the principal {text!r} is not of the form type:name, such as User:alice"


def mistake_in(binding: AclBinding) -> str | None:
    """Why a person should not create a binding, if there is a reason: brokers refuse it, or it can never apply."""
    resource, entry = binding
    problem = problem_of(binding)
    if problem is not None:
        return problem
    if entry.principal.endswith(":"):
        return _no_principal(entry.principal)
    if entry.operation is not AclOperation.ALL and entry.operation not in OPERATIONS[resource.type]:
        return f"{entry.operation.name} is not an operation on a resource of type {resource.type.name}"
    return None
