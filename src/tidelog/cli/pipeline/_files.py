"""The pipeline that a command's argument names, and the cluster it means."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli.errors import CommandError
from tidelog.client.cluster import Cluster
from tidelog.config import parse_properties
from tidelog.spark.pipeline.checks.definition import Problem, check
from tidelog.spark.pipeline.definition.loading import load_pipeline
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError

PipelineFile = Annotated[
    str,
    typer.Argument(
        help="A Python file with a pipeline; FILE:NAME if it has several.", metavar="FILE[:NAME]", show_default=False
    ),
]


INVALID: Final = 2


def open_pipeline(spec: str) -> Pipeline:
    """The pipeline of a file, if there are no mistakes in its definition; they end the program with code 2."""
    try:
        pipeline = load_pipeline(spec)
    except PipelineError as error:
        sys.stderr.write(f"tidelog: {error}\n")
        raise typer.Exit(INVALID) from None
    refuse_mistakes(pipeline, check(pipeline))
    return pipeline


def refuse_mistakes(pipeline: Pipeline, problems: Iterable[Problem]) -> None:
    """Print mistakes, one per line, and exit with code 2 if there are any. Warnings are ignored."""
    mistakes = [problem for problem in problems if not problem.is_warning]
    for mistake in mistakes:
        sys.stderr.write(f"tidelog: {pipeline.name}: {mistake}\n")
    if mistakes:
        raise typer.Exit(INVALID)


@contextmanager
def as_command_errors() -> Iterator[None]:
    """Convert PipelineError to CommandError."""
    try:
        yield
    except PipelineError as error:
        raise CommandError(str(error)) from error


def servers_of(pipeline: Pipeline, bootstrap_server: str | None, command_config: Path | None) -> str:
    """The bootstrap servers: from the option or its variable, the file, the pipeline, or the default."""
    if bootstrap_server is None and command_config is not None:
        settings = parse_properties(command_config.read_text(encoding="utf-8"))
        bootstrap_server = settings.get("bootstrap.servers")
    return pipeline.servers(bootstrap_server)


@contextmanager
def cluster_of(pipeline: Pipeline, bootstrap_server: str | None, command_config: Path | None) -> Iterator[Cluster]:
    """A client of the pipeline's cluster."""
    with Cluster(bootstrap_servers=servers_of(pipeline, bootstrap_server, command_config)) as cluster:
        yield cluster
