"""`tidelog reassign`: move partitions between brokers."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.reassign import execute, generate, verify


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    reassign = noun(application, "reassign", "Move partitions between brokers.")
    verb(reassign, "generate", generate.generate, generate.EXAMPLE)
    verb(reassign, "execute", execute.execute, execute.EXAMPLE)
    verb(reassign, "verify", verify.verify, verify.EXAMPLE)
    verb(reassign, "cancel", verify.cancel, verify.CANCEL_EXAMPLE)
