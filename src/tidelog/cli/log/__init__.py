"""`tidelog log`: the files of a data directory."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.log import dump


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    log = noun(application, "log", "Show the files of a data directory of Tidelog or Kafka.")
    verb(log, "dump", dump.dump, dump.EXAMPLE)
