"""The options that name resources, and how entries are printed."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.security.acls import CLUSTER_NAME, AclBinding, AclOperation, AclResourceType, PatternType, ResourcePattern

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


def print_bindings(bindings: Iterable[AclBinding], *, as_json: bool, nothing: str) -> None:
    """One line for each entry."""
    rows = [_row(each) for each in sorted(bindings)]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(("RESOURCE", "NAME", "PRINCIPAL", "HOST", "OPERATION", ""), [tuple(_cells(row)) for row in rows])
    else:
        print_line(nothing)


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


def _cells(row: Mapping[str, Any]) -> Iterable[str]:
    name = f"{row['name']}…" if row["prefixed"] else row["name"]
    return row["resource"], name, row["principal"], row["host"], row["operation"], row["permission"]
