"""`tidelog acl add`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.acl._resources import (
    IsPrefix,
    OfCluster,
    OfGroups,
    OfTopics,
    OfTransactionalIds,
    named_resources,
    operation_named,
    principal_named,
    print_bindings,
)
from tidelog.cli.errors import CommandError
from tidelog.security.acls import WILDCARD, AccessControlEntry, AclBinding, AclPermissionType, problem_of

EXAMPLE: Final = "tidelog acl add --principal User:alice --operation read --topic orders --group billing"


def add(
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
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
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
        if problem := problem_of(binding):
            raise CommandError(problem)
    with connect_admin(bootstrap_server, command_config) as admin:
        admin.create_acls(bindings)
    print_bindings(bindings, as_json=output is Format.JSON, nothing="")
