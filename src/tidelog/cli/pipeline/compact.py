"""`tidelog pipeline compact`."""

import sys
from typing import Annotated, Final

import typer

from tidelog.cli._options import Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.pipeline._files import PipelineFile, as_command_errors, open_pipeline
from tidelog.spark.pipeline.definition.endpoints import Changes, Delta, Iceberg

EXAMPLE: Final = "tidelog pipeline compact orders.py --target-mb 256"


def compact(
    file: PipelineFile,
    target_mb: Annotated[
        int | None,
        typer.Option(help="Size of a file to aim at, in MiB.", min=1, show_default="128"),
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Join the small files of a pipeline's tables into larger ones; the pipeline may run meanwhile."""
    from tidelog.spark.pipeline.lake.tables import open_table

    pipeline = open_pipeline(file)
    tables = [sink.table if isinstance(sink, Changes) else sink for sink in pipeline.sinks]
    lake = [table for table in tables if isinstance(table, Delta | Iceberg)]
    if not lake:
        raise CommandError(f"pipeline {pipeline.name!r} writes no Delta or Iceberg table")
    for table in lake:
        with as_command_errors():
            done = open_table(table).compact(None if target_mb is None else target_mb * 1024 * 1024)
        if output is Format.JSON:
            print_json({"table": str(table), **done})
        else:
            sys.stdout.write(f"{table}: {done['removed']:,} files became {done['added']:,}\n")
