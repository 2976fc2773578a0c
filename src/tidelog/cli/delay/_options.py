"""The options that the verbs share."""

from typing import Annotated

import typer

from tidelog.cli.errors import CommandError

Key = Annotated[str | None, typer.Option(help="Only records with this key.", show_default="any")]
Offset = Annotated[
    int | None, typer.Option(help="Only the record with this offset, as `delay list` shows it.", show_default="any")
]
Partitions = Annotated[
    list[int] | None, typer.Option("--partition", help="Only this partition; may be repeated.", show_default="all")
]


def check_selection(key: str | None, offset: int | None) -> None:
    """Raise unless something is selected."""
    if key is None and offset is None:
        raise CommandError("name the records with --key or --offset")
