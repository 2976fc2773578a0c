"""`tidelog delay`: records that wait for their time in topics with `tidelog.delay.enable`."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.delay import cancel, list_, reschedule


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    delay = noun(application, "delay", "List, cancel and reschedule delayed records.")
    verb(delay, "list", list_.list_delayed, list_.EXAMPLE)
    verb(delay, "cancel", cancel.cancel, cancel.EXAMPLE)
    verb(delay, "reschedule", reschedule.reschedule, reschedule.EXAMPLE)
