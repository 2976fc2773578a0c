"""What all verbs have in common: the options of a connection, the two forms of a result, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
import typer

from tidelog.cli._clients import Connection
from tidelog.cli._verbs import noun, verb
from tidelog.cli.output import Result, Table

seen: list[Connection] = []


def count(
    connection: Connection, words: Annotated[list[str], typer.Argument()], fail: Annotated[bool, typer.Option()] = False
) -> Result:
    """Count the letters of words."""
    seen.append(connection)
    table = Table(
        headings=("WORD", "LETTERS"), rows=[(word, len(word)) for word in words], before="counted:", after="done"
    )
    return Result({word: len(word) for word in words}, table, exit_code=3 if fail else 0)


def nothing() -> Result:
    """Show a table without rows."""
    return Result([], Table(headings=("WORD",), rows=[], before="before", nothing="There is none."))


def plain(name: str = "x") -> None:
    """Print by itself."""
    typer.echo(name)


@pytest.fixture
def application() -> typer.Typer:
    application = typer.Typer()
    group = noun(application, "word", "Words.")
    verb(group, "count", count, "tidelog word count a")
    verb(group, "nothing", nothing, "tidelog word nothing")
    verb(group, "plain", plain, "tidelog word plain")
    return application


def run(application: typer.Typer, *words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        application(args=["word", *words])
    return int(ended.value.code or 0)


def test_a_result_is_a_table_for_people(application: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(application, "count", "tide", "log") == 0
    assert capsys.readouterr().out == "counted:\nWORD  LETTERS\ntide        4\nlog         3\ndone\n"
    assert run(application, "nothing") == 0
    assert capsys.readouterr().out == "There is none.\n"


def test_a_result_is_a_document_for_programs(application: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(application, "count", "tide", "--format", "json", "--fail") == 3
    assert json.loads(capsys.readouterr().out) == {"tide": 4}


def test_a_connection_is_made_of_its_options(application: typer.Typer, tmp_path: Path) -> None:
    seen.clear()
    file = tmp_path / "client.properties"
    run(application, "count", "a", "--bootstrap-server", "broker:9092", "--command-config", str(file))
    assert seen == [Connection("broker:9092", file)]


def test_a_verb_without_either_gets_no_option(application: typer.Typer, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(application, "plain", "--name", "y") == 0
    assert capsys.readouterr().out == "y\n"
    assert run(application, "plain", "--format", "json") == 2
    assert run(application, "nothing", "--bootstrap-server", "x") == 2
