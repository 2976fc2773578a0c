"""`tidelog acl`: what principals may do to topics, groups, transactional ids and the cluster."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.health.findings import counted
from tidelog.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
    mistake_in,
)


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    acl = noun(application, "acl", "List, add and remove access control entries.")
    verb(acl, "list", list_acls, "tidelog acl list --topic orders")
    verb(acl, "add", add, "tidelog acl add --principal User:alice --operation read --topic orders --group billing")
    verb(acl, "remove", remove, "tidelog acl remove --principal User:alice --topic orders")


OfTopics = Annotated[
    list[str] | None, typer.Option("--topic", help="A topic, or * for all; may be repeated.", show_default=False)
]
OfGroups = Annotated[
    list[str] | None, typer.Option("--group", help="A group, or * for all; may be repeated.", show_default=False)
]
OfTransactionalIds = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", help="A transactional id, or * for all; may be repeated.", show_default=False),
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
IsPrefix = Annotated[bool, typer.Option("--prefixed", help="Names are prefixes: orders- covers orders-eu.")]

_TYPES: Final[Mapping[AclResourceType, str]] = {each: each.name.lower().replace("_", "-") for each in AclResourceType}


def named_resources(
    topics: Iterable[str] | None,
    groups: Iterable[str] | None,
    transactional_ids: Iterable[str] | None,
    cluster: bool,
    prefixed: bool,
) -> list[ResourcePattern]:
    """The resources that the options name."""
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    named = (
        (AclResourceType.TOPIC, topics),
        (AclResourceType.GROUP, groups),
        (AclResourceType.TRANSACTIONAL_ID, transactional_ids),
    )
    found = [ResourcePattern(kind, name, pattern) for kind, names in named for name in names or ()]
    if cluster:
        found.append(ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME))
    return found


def operation_named(text: str) -> AclOperation:
    """`read`, `describe-configs`, `all`, …"""
    name = text.upper().replace("-", "_")
    if name not in AclOperation.__members__ or AclOperation[name] is AclOperation.ANY:
        known = ", ".join(each.name.lower().replace("_", "-") for each in AclOperation if each is not AclOperation.ANY)
        raise CommandError(f"--operation {text!r} is none of {known}")
    return AclOperation[name]


def principal_named(text: str) -> str:
    """A principal; a name without a type is a user's."""
    return text if ":" in text else f"User:{text}"


def _rules(bindings: Iterable[AclBinding], done: str = "") -> Result:
    """The rules, below a line that says what became of them: `Added 2 rules:`. Without `done` they are only shown."""
    rows = [_row(each) for each in sorted(bindings)]
    table = Table(
        headings=("PERMISSION", "PRINCIPAL", "OPERATION", "RESOURCE", "NAME", "HOST"),
        rows=[_cells(row) for row in rows],
        before=done and f"{done} {counted(len(rows), 'rule')}:",
        nothing="No rule matches.",
    )
    return Result(rows, table)


def _row(binding: AclBinding) -> dict[str, Any]:
    resource, entry = binding
    return {
        "resource": _TYPES[resource.type],
        "name": resource.name,
        "prefixed": resource.pattern is PatternType.PREFIXED,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name.lower().replace("_", "-"),
        "permission": entry.permission.name.lower(),
    }


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    name = f"{row['name']}…" if row["prefixed"] else row["name"]
    return row["permission"], row["principal"], row["operation"], row["resource"], name, row["host"]


def add(
    connection: Connection,
    principals: Annotated[
        list[str], typer.Option("--principal", help="Who, such as User:alice or User:*; may be repeated.")
    ],
    operations: Annotated[
        list[str],
        typer.Option("--operation", help="read, write, create, delete, alter, describe, …, all; may be repeated."),
    ],
    topics: OfTopics = None,
    groups: OfGroups = None,
    transactional_ids: OfTransactionalIds = None,
    cluster: OfCluster = False,
    prefixed: IsPrefix = False,
    hosts: Annotated[
        list[str] | None, typer.Option("--host", help="From this address only; may be repeated.", show_default="all")
    ] = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny instead of allow; this goes before what allows.")] = False,
) -> Result:
    """Allow or deny operations on resources."""
    resources = named_resources(topics, groups, transactional_ids, cluster, prefixed)
    if not resources:
        raise CommandError("name what the entry is about: --topic, --group, --transactional-id or --cluster")
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    bindings = [
        AclBinding(
            resource, AccessControlEntry(principal_named(principal), host, operation_named(operation), permission)
        )
        for resource in resources
        for principal in principals
        for operation in operations
        for host in hosts or [WILDCARD]
    ]
    for binding in bindings:
        if problem := mistake_in(binding):
            raise CommandError(problem)
    with connection.admin() as admin:
        admin.create_acls(bindings)
    return _rules(bindings, "Added")


def list_acls(
    connection: Connection,
    topics: OfTopics = None,
    groups: OfGroups = None,
    transactional_ids: OfTransactionalIds = None,
    cluster: OfCluster = False,
    principal: Annotated[
        str | None, typer.Option("--principal", help="Of this principal only, such as User:alice.", show_default=False)
    ] = None,
) -> Result:
    """List access control entries: all, or those that apply to the resources named, prefixes and * included."""
    whose = None if principal is None else principal_named(principal)
    resources = named_resources(topics, groups, transactional_ids, cluster, False)
    filters = [AclBindingFilter(each.type, each.name, PatternType.MATCH, whose) for each in resources]
    with connection.admin() as admin:
        found = {
            binding
            for wanted in filters or [AclBindingFilter(principal=whose)]
            for binding in admin.describe_acls(wanted)
        }
    return _rules(found)


def remove(
    connection: Connection,
    topics: OfTopics = None,
    groups: OfGroups = None,
    transactional_ids: OfTransactionalIds = None,
    cluster: OfCluster = False,
    prefixed: IsPrefix = False,
    principal: Annotated[
        str | None, typer.Option("--principal", help="Of this principal only, such as User:alice.", show_default=False)
    ] = None,
    operation: Annotated[
        str | None, typer.Option("--operation", help="Of this operation only.", show_default=False)
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Of this address only.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="On every resource.")] = False,
) -> Result:
    """Remove the entries of resources, and print them. Names are taken literally: * is the entry for all."""
    resources = named_resources(topics, groups, transactional_ids, cluster, prefixed)
    if bool(resources) == everything:
        raise CommandError("name resources (--topic, --group, --transactional-id, --cluster), or give --all")
    whose = None if principal is None else principal_named(principal)
    what = AclOperation.ANY if operation is None else operation_named(operation)
    filters = [AclBindingFilter(each.type, each.name, each.pattern, whose, host, what) for each in resources] or [
        AclBindingFilter(pattern=PatternType.ANY, principal=whose, host=host, operation=what)
    ]
    with connection.admin() as admin:
        removed = {binding for found in admin.delete_acls(filters).values() for binding in found}
    return _rules(removed, "Removed")
