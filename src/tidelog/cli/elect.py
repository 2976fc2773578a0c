"""`tidelog elect`: elect preferred replicas as leaders, or any replica in an unclean election."""

from typing import Annotated, Any, Final

import typer

from tidelog.cli._clients import Connection
from tidelog.cli._verbs import verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import ElectionType
from tidelog.client.types import TopicPartition
from tidelog.health.findings import counted
from tidelog.wire.errors import ErrorCode

EXAMPLE: Final = "tidelog elect --topic orders"


def register(application: typer.Typer) -> None:
    """Add the command."""
    verb(application, "elect", elect, EXAMPLE)


def elect(
    connection: Connection,
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
) -> Result:
    """Elect leaders: by default the preferred replica of each partition, if it is in sync."""
    if partition is not None and (topics is None or len(topics) != 1):
        raise CommandError("--partition needs exactly one --topic")
    if unclean and not topics:
        raise CommandError("--unclean needs --topic: it may lose acknowledged records, so give the topic")
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    with connection.admin() as admin:
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
        # Asked for all partitions, brokers answer only for those that another replica could lead.
        asked = _all_partitions(admin) if wanted is None else wanted
        results = admin.elect_leaders(wanted, kind)
    rows = [_row(where, error) for where, error in sorted(results.items())]
    return Result(rows, _text(rows, len({*asked, *results})), exit_code=int(any(row["error"] for row in rows)))


def _row(where: TopicPartition, error: Any) -> dict[str, Any]:
    needless = error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED
    failed = error is not None and not needless
    return {
        "topic": where.topic,
        "partition": where.partition,
        "elected": error is None,
        "error": f"{error.message or error.code.text} ({error.code.name})" if failed else None,
    }


def _text(rows: list[dict[str, Any]], partitions: int) -> str:
    elected = sum(row["elected"] for row in rows)
    failed = sum(bool(row["error"]) for row in rows)
    changes = (row for row in rows if row["elected"] or row["error"])
    lines = [f"{row['topic']}-{row['partition']}: {row['error'] or 'elected'}" for row in changes]
    refused = f", {failed} not possible" if failed else ""
    lines.append(f"{counted(elected, 'leader')} elected, {partitions - elected - failed} unchanged{refused}")
    return "\n".join(lines)


def _all_partitions(admin: Admin) -> list[TopicPartition]:
    described = admin.describe_all_topics(include_internal=True)
    return [TopicPartition(name, each.partition) for name, topic in described.items() for each in topic.partitions]
