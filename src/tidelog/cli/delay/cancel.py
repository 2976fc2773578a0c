"""`tidelog delay cancel`."""

from typing import Final

from tidelog.cli._clients import connect_admin
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, TopicName
from tidelog.cli.delay._options import Key, Offset, Partitions, check_selection
from tidelog.cli.output import print_json, print_line
from tidelog.health.findings import counted

EXAMPLE: Final = "tidelog delay cancel reminders --key order-17"


def cancel(
    topic: TopicName,
    key: Key = None,
    offset: Offset = None,
    partition: Partitions = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Cancel records that wait: they never become visible."""
    check_selection(key, offset)
    with connect_admin(bootstrap_server, command_config) as admin:
        count = admin.cancel_delayed_records(topic, partition, offset=offset, key=None if key is None else key.encode())
    if output is Format.JSON:
        print_json({"cancelled": count})
    else:
        print_line(f"{counted(count, 'record', 'was', 'were')} cancelled in {topic}.")
