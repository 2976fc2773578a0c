"""`tidelog from-kafka`: what takes the place of Kafka's tools, settings and MBeans."""

import sys
from typing import Annotated, Final

import typer

from tidelog.cli._options import Format, OutputFormat
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.from_kafka._page import look_up, page
from tidelog.cli.output import print_json, print_table

EXAMPLE: Final = "tidelog from-kafka kafka-topics.sh UnderReplicatedPartitions"


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "from-kafka", from_kafka, EXAMPLE)


def from_kafka(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Tools, settings or MBeans, or parts of their names.", metavar="NAME…", show_default="all"),
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show what takes the place of Kafka's tools, settings and MBeans. Without a name, print docs/from-kafka.md."""
    if not names and output is Format.TEXT:
        sys.stdout.write(page())
        return
    found = look_up(names or [""])
    if not found:
        raise CommandError(f"Apache Kafka 3.9 has no tool, setting or MBean with {' or '.join(map(repr, names or ()))}")
    if output is Format.JSON:
        print_json([entry._asdict() for entry in found])
        return
    print_table(("KAFKA", "TIDELOG", "NOTE"), [(each.kafka, each.here.strip("`"), each.note or "-") for each in found])
