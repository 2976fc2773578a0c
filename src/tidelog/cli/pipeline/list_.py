"""`tidelog pipeline list`."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._options import Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json, print_table
from tidelog.spark.pipeline.definition.loading import load_pipelines
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError

EXAMPLE: Final = "tidelog pipeline list pipelines/"

_MARK: Final = "Pipeline("


def list_pipelines(
    directory: Annotated[
        Path,
        typer.Argument(help="Directory to search, with its subdirectories.", metavar="DIRECTORY", show_default="here"),
    ] = Path(),
    output: OutputFormat = Format.TEXT,
) -> None:
    """List the pipelines that the Python files of a directory define.

    Only files that contain `Pipeline(` are run to find their pipelines; a file that fails is reported and skipped.
    """
    if not directory.exists():
        raise CommandError(f"{directory}: no such directory")
    found: list[tuple[Path, Pipeline]] = []
    for path in sorted([directory] if directory.is_file() else directory.rglob("*.py")):
        if _is_worth_a_look(path):
            try:
                found += [(path, pipeline) for pipeline in load_pipelines(path).values()]
            except PipelineError as error:
                sys.stderr.write(f"tidelog: {error}\n")
    if output is Format.JSON:
        print_json([as_json(path, pipeline) for path, pipeline in found])
        return
    rows = [
        (pipeline.name, str(path), str(pipeline.source), ", ".join(map(str, pipeline.sinks)), pipeline.description)
        for path, pipeline in found
    ]
    if rows:
        print_table(("NAME", "FILE", "SOURCE", "SINK", "DESCRIPTION"), rows)
    else:
        sys.stderr.write(f"no pipelines in {directory}\n")


def as_json(path: Path, pipeline: Pipeline) -> dict[str, object]:
    """A pipeline as one JSON object."""
    return {
        "name": pipeline.name,
        "file": str(path),
        "source": str(pipeline.source),
        "sinks": [str(sink) for sink in pipeline.sinks],
        "description": pipeline.description,
    }


def _is_worth_a_look(path: Path) -> bool:
    hidden = any(part.startswith(".") and part not in (".", "..") for part in path.parts)
    try:
        return not hidden and _MARK in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
