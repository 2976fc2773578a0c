"""`tidelog table list|status|start|stop|run`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result, Table
from tidelog.cli.progress import waiting
from tidelog.cli.table._supervisor import Supervisor, TableDirectory, pipeline_command, tables_in

DEFAULT_DIRECTORY: Final = Path("tidelog-tables")

Directory = Annotated[
    Path,
    typer.Option(
        "--directory",
        envvar="TIDELOG_TABLES",
        help="Where the pipelines of tables keep their files.",
        metavar="DIR",
    ),
]
TableName = Annotated[str, typer.Argument(help="Name of the table.", metavar="TABLE", show_default=False)]

_HEADINGS: Final = ("TABLE", "STATE", "READ", "BATCH", "STARTS", "PID", "LAST-ERROR")
_START_SECONDS: Final = 180.0
_STOP_SECONDS: Final = 180.0
_POLL_S: Final = 0.1
_WELL: Final = ("running", "starting")


def list_tables(directory: Directory = DEFAULT_DIRECTORY) -> Result:
    """List tables and what their pipelines do. READ counts records since the start."""
    return _shown([_facts(each) for each in tables_in(directory)])


def status(name: TableName, directory: Directory = DEFAULT_DIRECTORY) -> Result:
    """Show what the pipeline of a table does; exit code 1 if it does not run.

    Its lag is shown by `tidelog pipeline status table-NAME`.
    """
    facts = _facts(opened(directory, name))
    shown = _shown([facts])
    return Result(facts, shown.text, exit_code=0 if facts["state"] in _WELL else 1)


def stop(name: TableName, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Stop the pipeline of a table, between two batches. The table stays, and `tidelog table start` goes on with it."""
    table = opened(directory, name)
    supervisor = table.state().get("supervisor")
    if not table.is_supervised() or supervisor is None:
        raise CommandError(f"table {name} does not run")
    with suppress(ProcessLookupError):
        os.kill(supervisor, signal.SIGTERM)
    with waiting(f"stopping table {name}"):
        if not _until(lambda: not table.is_supervised(), _STOP_SECONDS):
            raise CommandError(f"table {name} was not stopped within {_STOP_SECONDS:.0f} s; see {table.log}")
    sys.stdout.write(f"table {name} is stopped\n")


def start(name: TableName, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Start the pipeline of a table in the background."""
    table = opened(directory, name)
    start_detached(table)
    sys.stdout.write(f"table {name} runs; stop it with `tidelog table stop {name}`\n")


def run(name: TableName, directory: Directory = DEFAULT_DIRECTORY) -> None:
    """Run the pipeline of a table here until it is stopped, and start it again when its process dies.

    For service managers; `tidelog table start` does the same in the background.
    """
    table = opened(directory, name)
    raise typer.Exit(Supervisor(table, pipeline_command(table)).run())


def opened(directory: Path, name: str) -> TableDirectory:
    """The table of this name. Raises CommandError."""
    for each in tables_in(directory):
        if each.name == name:
            return each
    raise CommandError(f"there is no table {name} in {directory}: `tidelog table create {name}` makes one")


def start_detached(table: TableDirectory) -> None:
    """Start the supervisor as a process of its own, and wait until the pipeline runs. Raises CommandError."""
    if table.is_supervised():
        raise CommandError(f"table {table.name} is running already, pid {table.state().get('supervisor', '?')}")
    with table.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tidelog", "table", "run", table.name, "--directory", str(table.path.parent)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def is_decided() -> bool:
        state = table.state()
        is_current = state.get("supervisor") == process.pid
        return process.poll() is not None or (is_current and state["state"] not in ("starting", "restarting"))

    with waiting(f"starting Spark for table {table.name}"):
        if not _until(is_decided, _START_SECONDS):
            process.terminate()
            raise CommandError(f"table {table.name} did not run within {_START_SECONDS:.0f} s; see {table.log}")
    state = table.state()
    if process.poll() is not None or state["state"] != "running":
        reason = state.get("error") or "its process ended"
        raise CommandError(f"table {table.name} does not run: {reason}; see {table.log}")


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _facts(table: TableDirectory) -> dict[str, Any]:
    state = table.state()
    is_there = table.is_supervised()
    said = state.get("state", "stopped")
    # A supervisor that was killed has not written that it ended.
    shown = said if is_there or said in ("stopped", "failed") else "lost"
    return {
        "table": table.name,
        "state": shown,
        "rows": state.get("rows", 0),
        "batch": state.get("batch"),
        "starts": state.get("starts", 0),
        "pid": state.get("pid") if is_there else None,
        "supervisor": state.get("supervisor") if is_there else None,
        "error": state.get("error"),
        "definition": str(table.definition),
        "log": str(table.log),
    }


def _shown(tables: list[dict[str, Any]]) -> Result:
    rows = [
        (
            each["table"],
            each["state"],
            each["rows"],
            "-" if each["batch"] is None else each["batch"],
            each["starts"],
            each["pid"] or "-",
            each["error"] or "-",
        )
        for each in tables
    ]
    return Result(tables, Table(headings=_HEADINGS, rows=rows))
