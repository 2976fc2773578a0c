"""`tidelog retry`: records that wait in Redis before they are tried again."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.retry import work


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    retry = noun(application, "retry", "Move records that wait in Redis to their topics when they are due.")
    verb(retry, "work", work.work, work.EXAMPLE)
