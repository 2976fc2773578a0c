"""`tidelog transactions`: list, describe and abort transactions, and find hanging ones."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.transactions import abort, describe, find_hanging, list_


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    transactions = noun(application, "transactions", "List, describe and abort transactions; find hanging ones.")
    verb(transactions, "list", list_.list_transactions, list_.EXAMPLE)
    verb(transactions, "describe", describe.describe, describe.EXAMPLE)
    verb(transactions, "abort", abort.abort, abort.EXAMPLE)
    verb(transactions, "find-hanging", find_hanging.find_hanging, find_hanging.EXAMPLE)
