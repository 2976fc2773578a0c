"""`tidelog features`: which levels of the cluster's features are finalised."""

from collections.abc import Sequence
from typing import Annotated

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.client.aio.admin.types import FeatureUpgrade

Wanted = Annotated[
    list[str] | None,
    typer.Argument(help="Features and their new levels.", metavar="NAME=LEVEL…", show_default=False),
]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Only check; change nothing.")]


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    features = noun(application, "features", "Describe, upgrade and downgrade the features of a cluster.")
    verb(features, "describe", describe, "tidelog features describe")
    verb(features, "upgrade", upgrade, "tidelog features upgrade transaction.version=2")
    verb(features, "downgrade", downgrade, "tidelog features downgrade transaction.version=0")


def describe(connection: Connection) -> Result:
    """Show every feature: the level in effect, and the highest that all brokers support."""
    with connection.admin() as admin:
        found = admin.describe_features().values()
    return Result(
        [{"feature": each.name, "level": each.level, "supported": each.supported} for each in found],
        Table(
            headings=("FEATURE", "LEVEL", "SUPPORTED"),
            rows=[(each.name, each.level, f"0-{each.supported}") for each in found],
            nothing="The brokers have no features.",
        ),
    )


def upgrade(connection: Connection, wanted: Wanted = None, validate_only: ValidateOnly = False) -> Result:
    """Raise levels; without names, each feature to the highest level that all brokers support."""
    levels = _parse(wanted or ())
    if not levels:
        with connection.admin() as admin:
            found = admin.describe_features().values()
        levels = {each.name: each.supported for each in found if each.supported > each.level}
        if not levels:
            return Result({}, "Every feature is at the highest level that all brokers support.")
    return _update(connection, levels, FeatureUpgrade.UPGRADE, validate_only)


def downgrade(
    connection: Connection,
    wanted: Annotated[
        list[str],
        typer.Argument(help="Features and their new levels; 0 turns one off.", metavar="NAME=LEVEL…"),
    ],
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Even if metadata may be lost.")] = False,
    validate_only: ValidateOnly = False,
) -> Result:
    """Lower levels, before brokers join that do not have them."""
    kind = FeatureUpgrade.UNSAFE_DOWNGRADE if unsafe else FeatureUpgrade.SAFE_DOWNGRADE
    return _update(connection, _parse(wanted), kind, validate_only)


def _parse(wanted: Sequence[str]) -> dict[str, int]:
    levels = {}
    for text in wanted:
        name, separator, level = text.partition("=")
        if not (name and separator and level.isascii() and level.isdigit() and len(level) <= 5):
            raise CommandError(f"{text!r} is not NAME=LEVEL, such as transaction.version=2")
        levels[name] = int(level)
    return levels


def _update(connection: Connection, levels: dict[str, int], kind: FeatureUpgrade, validate_only: bool) -> Result:
    with connection.admin() as admin:
        admin.update_features(levels, kind, validate_only=validate_only)
    words = "can be at" if validate_only else "is at"
    lines = [f"{name} {words} level {level}" for name, level in levels.items()]
    return Result({"finalised": {} if validate_only else levels, "valid": levels}, "\n".join(lines))
