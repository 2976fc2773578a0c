"""`tidelog pipeline publish`."""

import sys
from typing import Annotated, Final

import typer

from tidelog.cli._options import Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.pipeline._files import PipelineFile, as_command_errors, open_pipeline
from tidelog.spark.pipeline.definition.endpoints import Changes, Iceberg

EXAMPLE: Final = "tidelog pipeline publish orders.py --tag 2026-01-31"


def publish(
    file: PipelineFile,
    tag: Annotated[str | None, typer.Option(help="A tag for what readers see from now on.", show_default=False)] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Give readers what a pipeline has written to the branch of its Iceberg table; the pipeline may run meanwhile."""
    from tidelog.spark.pipeline.lake.iceberg import IcebergTable

    pipeline = open_pipeline(file)
    tables = [sink.table if isinstance(sink, Changes) else sink for sink in pipeline.sinks]
    branches = [table for table in tables if isinstance(table, Iceberg) and table.branch is not None]
    if not branches:
        raise CommandError(f"pipeline {pipeline.name!r} writes to no branch: iceberg(…, branch='audit')")
    for table in branches:
        with as_command_errors():
            before, now = IcebergTable(table).publish(tag)
        if output is Format.JSON:
            print_json({"table": str(table), "branch": table.branch, "before": before, "snapshot": now, "tag": tag})
        elif before == now:
            sys.stdout.write(f"{table}: branch {table.branch} has nothing that readers do not see\n")
        else:
            sys.stdout.write(f"{table}: readers see snapshot {now} of branch {table.branch}\n")
