"""`tidelog pipeline package`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._options import Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.cli.pipeline._files import PipelineFile, as_command_errors, open_pipelines
from tidelog.spark.pipeline.definition.loading import split_spec
from tidelog.spark.pipeline.running.packaging import ENVIRONMENT, PYTHON, make_archive

EXAMPLE: Final = "tidelog pipeline package orders.py --output orders.tar.gz"


def package(
    file: PipelineFile,
    output_file: Annotated[
        Path | None,
        typer.Option(
            "--output", help="The archive to write.", show_default="NAME.tar.gz, of the pipeline or of the file"
        ),
    ] = None,
    others: Annotated[
        list[str] | None,
        typer.Option("--with", help="A distribution that the steps import; may be repeated.", metavar="NAME"),
    ] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Make the archive that executors of a cluster need to run the pipelines of a file.

    It has Tidelog, what it requires, the distributions named by --with, and the modules beside the file that it
    imports, as they are installed here: executors need the same platform and Python version. PySpark is not in it.
    """
    with as_command_errors():
        pipelines = open_pipelines(file)
        name = pipelines[0].name if len(pipelines) == 1 else split_spec(file)[0].stem
        packed = make_archive(output_file or Path(f"{name}.tar.gz"), others=others or ())
    if output is Format.JSON:
        print_json({**asdict(packed), "path": str(packed.path)})
        return
    path, _ = split_spec(file)
    print_line(f"{packed.path}: {len(packed.distributions)} distributions, {packed.size_bytes / 1e6:.0f} MB")
    print_line(f"PYSPARK_PYTHON={PYTHON} spark-submit --archives {packed.path}#{ENVIRONMENT} {path}")
