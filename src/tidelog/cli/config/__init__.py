"""`tidelog config`: the settings of topics and brokers, shown, changed and explained."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.config import alter, describe, reference


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    config = noun(application, "config", "Show, change and explain the settings of topics and brokers.")
    verb(config, "describe", describe.describe, describe.EXAMPLE)
    verb(config, "alter", alter.alter, alter.EXAMPLE)
    verb(config, "reference", reference.reference, reference.EXAMPLE)
