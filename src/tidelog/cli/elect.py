"""`tidelog elect`: elect preferred replicas as leaders, or any replica in an unclean election."""

from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line
from tidelog.client.aio.admin.types import ElectionType
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode

EXAMPLE: Final = "tidelog elect --topic orders"


def register(application: typer.Typer) -> None:
    """Add the command."""
    application.command(
        "elect", epilog=f"Example: {EXAMPLE}", context_settings={"help_option_names": ["-h", "--help"]}
    )(elect)


def elect(
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Elect leaders of this topic only; may be repeated.", show_default="all topics"),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", help="Of this partition only.", show_default=False)
    ] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Allow a leader that may lack acknowledged records.")
    ] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Elect leaders: by default the preferred replica of each partition, if it is in sync."""
    if partition is not None and (topics is None or len(topics) != 1):
        raise CommandError("--partition needs exactly one --topic")
    if unclean and not topics:
        raise CommandError("--unclean needs --topic: it may lose acknowledged records, so give the topic")
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    with connect_admin(bootstrap_server, command_config) as admin:
        wanted = None
        if topics:
            described = admin.describe_topics(topics).values()
            wanted = [
                TopicPartition(topic.name, each.partition)
                for topic in described
                for each in topic.partitions
                if partition in (None, each.partition)
            ]
            if not wanted:
                raise CommandError(f"topic {topics[0]!r} has no partition {partition}")
        results = admin.elect_leaders(wanted, kind)
    rows = [_row(where, error) for where, error in sorted(results.items())]
    if output is Format.JSON:
        print_json(rows)
    else:
        _print_rows(rows)
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


def _row(where: TopicPartition, error: Any) -> dict[str, Any]:
    needless = error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED
    failed = error is not None and not needless
    return {
        "topic": where.topic,
        "partition": where.partition,
        "elected": error is None,
        "error": f"{error.message or error.code.text} ({error.code.name})" if failed else None,
    }


def _print_rows(rows: list[dict[str, Any]]) -> None:
    elected = [row for row in rows if row["elected"]]
    for row in rows:
        if row["elected"] or row["error"]:
            print_line(f"{row['topic']}-{row['partition']}: {row['error'] or 'elected'}")
    print_line(f"{len(elected)} leaders elected, {len(rows) - len(elected)} unchanged")
