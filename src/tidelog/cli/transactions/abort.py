"""`tidelog transactions abort`: by its transactional id, or, where no coordinator knows it, partition by partition."""

from typing import Annotated, Final

import typer

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_line
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import ActiveProducer
from tidelog.client.types import TopicPartition

EXAMPLE: Final = "tidelog transactions abort --topic orders --partition 3 --start-offset 5120"


def abort(
    transactional_id: Annotated[
        str | None,
        typer.Option(
            help="Abort the open transaction of this id, and fence its producer.", show_default=False, metavar="ID"
        ),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Topic of a hanging transaction.", show_default=False)] = None,
    partition: Annotated[int | None, typer.Option(help="Its partition.", min=0, show_default=False)] = None,
    start_offset: Annotated[
        int | None, typer.Option(help="Its start offset, as find-hanging prints it.", min=0, show_default=False)
    ] = None,
    producer_id: Annotated[
        int | None, typer.Option(help="Its producer, instead of --start-offset.", min=0, show_default=False)
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Abort a transaction: by its transactional id, or, if its coordinator does not know it, in one partition."""
    if transactional_id is not None and (topic, partition, start_offset, producer_id) == (None,) * 4:
        with connect_admin(bootstrap_server, command_config) as admin:
            admin.describe_transactions([transactional_id])  # otherwise fencing would create an unknown id
            admin.fence_producers([transactional_id])
        if output is Format.JSON:
            print_json({"transactional_id": transactional_id})
        else:
            print_line(
                f"{transactional_id}: no open transaction any more; its producer is fenced and must be restarted"
            )
        return
    if (
        transactional_id is not None
        or topic is None
        or partition is None
        or (start_offset is None) == (producer_id is None)
    ):
        raise CommandError(
            "give --transactional-id alone, or --topic and --partition with --start-offset or --producer-id"
        )
    where = TopicPartition(topic, partition)
    with connect_admin(bootstrap_server, command_config) as admin:
        found = _open_transaction(admin, where, start_offset, producer_id)
        admin.abort_transaction(where, found.producer_id, found.producer_epoch, max(found.coordinator_epoch, 0))
    if output is Format.JSON:
        print_json(
            {**where._asdict(), "producer_id": found.producer_id, "start_offset": found.transaction_start_offset}
        )
    else:
        text = f"aborted the transaction of producer {found.producer_id} at {found.transaction_start_offset}"
        print_line(f"{where}: {text}")


def _open_transaction(
    admin: Admin, where: TopicPartition, start_offset: int | None, producer_id: int | None
) -> ActiveProducer:
    """The producer whose transaction is meant."""
    producers = [each for each in admin.describe_producers([where])[where] if each.transaction_start_offset >= 0]
    for each in producers:
        if start_offset == each.transaction_start_offset or producer_id == each.producer_id:
            return each
    known = ", ".join(f"{each.transaction_start_offset} (producer {each.producer_id})" for each in producers) or "none"
    wanted = f"at offset {start_offset}" if producer_id is None else f"of producer {producer_id}"
    raise CommandError(f"{where} has no open transaction {wanted}; open ones start at: {known}")
