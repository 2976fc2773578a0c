"""Access control entries, the resources they are about, and the filters that find them, as Kafka defines them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""Every resource of a type, as the name of a literal pattern; every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class ResourceType(IntEnum):
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


class Operation(IntEnum):
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


class Permission(IntEnum):
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What can be done to a resource of each type."""


class Resource(NamedTuple):
    """A pattern that names resources: one, all (`*`), or those whose names begin with a prefix."""

    type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL


class Entry(NamedTuple):
    """Whether a principal may do something from a host."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def applies(self, principal: str, host: str) -> bool:
        return self.principal in (principal, WILDCARD_PRINCIPAL) and self.host in (host, WILDCARD)


class Binding(NamedTuple):
    resource: Resource
    entry: Entry


class BindingFilter(NamedTuple):
    """Finds bindings. None and ANY match everything."""

    type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches_resource(self, resource: Resource) -> bool:
        if self.type not in (ResourceType.ANY, resource.type):
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

    def matches_entry(self, entry: Entry) -> bool:
        return (
            self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission)
        )


def problem_of(binding: Binding) -> str | None:
    """What is wrong with a binding that is to be created, if anything."""
    resource, entry = binding
    if resource.type is ResourceType.ANY or resource.pattern in (PatternType.ANY, PatternType.MATCH):
        return f"{resource.type.name}:{resource.pattern.name} is for filters; an ACL names a resource and its pattern"
    if entry.operation is Operation.ANY or entry.permission is Permission.ANY:
        return "an ACL allows or denies an operation; ANY is for filters"
    if resource.type is ResourceType.CLUSTER and resource.name != CLUSTER_NAME:
        return f"the cluster's name in ACLs is {CLUSTER_NAME}, not {resource.name!r}"
    if not resource.name:
        return "the resource's name is empty"
    if "/" in resource.name:
        return f"the resource's name {resource.name!r} has a slash"
    principal_type, colon, name = entry.principal.partition(":")
    if not (principal_type and colon and name):
        return f"the principal {entry.principal!r} is not of the form type:name, such as User:alice"
    if entry.operation is not Operation.ALL and entry.operation not in OPERATIONS[resource.type]:
        return f"{entry.operation.name} is not an operation on a resource of type {resource.type.name}"
    return None
