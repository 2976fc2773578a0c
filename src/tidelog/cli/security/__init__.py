"""`tidelog security`: a secured broker in one command."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.security import init


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    security = noun(application, "security", "Certificates and credentials for a secured broker.")
    verb(security, "init", init.init, init.EXAMPLE)
