"""`tidelog topic`: create, list, describe, alter, compact and delete topics."""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.topic import alter, compact, create, delete, describe, list_


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    topic = noun(application, "topic", "Create, list, describe, alter, compact and delete topics.")
    verb(topic, "create", create.create, create.EXAMPLE)
    verb(topic, "list", list_.list_topics, list_.EXAMPLE)
    verb(topic, "describe", describe.describe, describe.EXAMPLE)
    verb(topic, "alter", alter.alter, alter.EXAMPLE)
    verb(topic, "compact", compact.compact, compact.EXAMPLE)
    verb(topic, "delete", delete.delete, delete.EXAMPLE)
