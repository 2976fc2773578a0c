"""`tidelog acl list`."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.acl._resources import (
    OfCluster,
    OfGroups,
    OfTopics,
    OfTransactionalIds,
    named_resources,
    principal_named,
    print_bindings,
)
from tidelog.security.acls import AclBindingFilter, PatternType

EXAMPLE: Final = "tidelog acl list --topic orders"


def list_acls(
    topics: OfTopics = None,
    groups: OfGroups = None,
    transactional_ids: OfTransactionalIds = None,
    cluster: OfCluster = False,
    principal: Annotated[
        str | None, typer.Option("--principal", help="Of this principal only, such as User:alice.", show_default=False)
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """List access control entries: all, or those that apply to the resources named, prefixes and * included."""
    whose = None if principal is None else principal_named(principal)
    resources = named_resources(topics, groups, transactional_ids, cluster, False)
    filters = [AclBindingFilter(each.type, each.name, PatternType.MATCH, whose) for each in resources]
    with connect_admin(bootstrap_server, command_config) as admin:
        found = {
            binding
            for wanted in filters or [AclBindingFilter(principal=whose)]
            for binding in admin.describe_acls(wanted)
        }
    print_bindings(found, as_json=output is Format.JSON, nothing="No access control entry matches.")
