"""`tidelog acl remove`."""

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
from tidelog.security.acls import AclBindingFilter, AclOperation, PatternType

EXAMPLE: Final = "tidelog acl remove --principal User:alice --topic orders"


def remove(
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
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Remove the entries of resources, and print them. Names are taken literally: * is the entry for all."""
    resources = named_resources(topics, groups, transactional_ids, cluster, prefixed)
    if bool(resources) == everything:
        raise CommandError("name resources (--topic, --group, --transactional-id, --cluster), or give --all")
    whose = None if principal is None else principal_named(principal)
    what = AclOperation.ANY if operation is None else operation_named(operation)
    filters = [AclBindingFilter(each.type, each.name, each.pattern, whose, host, what) for each in resources] or [
        AclBindingFilter(pattern=PatternType.ANY, principal=whose, host=host, operation=what)
    ]
    with connect_admin(bootstrap_server, command_config) as admin:
        removed = {binding for found in admin.delete_acls(filters).values() for binding in found}
    print_bindings(removed, as_json=output is Format.JSON, nothing="No access control entry matches.")
