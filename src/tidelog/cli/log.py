"""`tidelog log`: the files of a data directory."""

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli._options import Format, OutputFormat
from tidelog.cli._verbs import noun, verb
from tidelog.cli.output import print_json_lines, print_line
from tidelog.storage.dump import dump_file, row_text


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    log = noun(application, "log", "Show the files of a data directory of Tidelog or Kafka.")
    verb(log, "dump", dump, "tidelog log dump tidelog-data/orders-0/*.log --print-data-log")


def dump(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files to read: .log, .index, .timeindex, .txnindex, .snapshot, checkpoints, metadata, properties.",
            metavar="FILE…",
            show_default=False,
        ),
    ],
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Show every record with its key and value.")
    ] = False,
    deep: Annotated[
        bool, typer.Option("--deep", "--deep-iteration", help="Show every record, without key and value.")
    ] = False,
    index_sanity_check: Annotated[
        bool, typer.Option("--index-sanity-check", help="Only check indexes as a starting broker does.")
    ] = False,
    verify_index_only: Annotated[
        bool, typer.Option("--verify-index-only", help="Compare indexes with the log; show only errors.")
    ] = False,
    max_bytes: Annotated[
        int | None, typer.Option(help="Read at most this many bytes of a .log file.", min=1, show_default="all")
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show the contents of log files, indexes, snapshots and checkpoints; exit code 1 if one is damaged."""
    problems = 0
    for path in files:
        path.stat()  # raises a clear error if the file is missing
        rows = dump_file(
            str(path),
            print_data=print_data_log,
            deep=deep,
            sanity_only=index_sanity_check,
            verify_only=verify_index_only,
            bytes_max=max_bytes,
        )
        if output is Format.TEXT:
            print_line(f"Dumping {path}")
        for row in rows:
            problems += row.is_problem
            if output is Format.JSON:
                print_json_lines([{"file": str(path), "kind": row.kind, **row.fields}])
            else:
                print_line(row_text(row))
    if problems:
        raise typer.Exit(1)
