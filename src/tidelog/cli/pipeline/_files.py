"""The pipeline that a command's argument names, and the cluster it means."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli.errors import CommandError
from tidelog.client.cluster import Cluster
from tidelog.config import parse_properties
from tidelog.spark.pipeline.checks.definition import Problem, check
from tidelog.spark.pipeline.definition.loading import choose_pipelines, load_pipeline
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError

PipelineFile = Annotated[
    str,
    typer.Argument(
        help="A Python file with a pipeline; FILE:NAME if it has several.", metavar="FILE[:NAME]", show_default=False
    ),
]


INVALID: Final = 2


def open_pipeline(spec: str, command_config: Path | None = None) -> Pipeline:
    """The pipeline of a file, if there are no mistakes in its definition; they end the program with code 2.

    `command_config` takes the place of the client settings that the definition has.
    """
    try:
        pipeline = with_command_config(load_pipeline(spec), command_config)
    except PipelineError as error:
        sys.stderr.write(f"tidelog: {error}\n")
        raise typer.Exit(INVALID) from None
    refuse_mistakes(pipeline, check(pipeline))
    return pipeline


def open_pipelines(spec: str) -> list[Pipeline]:
    """All pipelines of a file, or the one that is named, if there are no mistakes in them; see `open_pipeline`."""
    try:
        found = choose_pipelines(spec)
    except PipelineError as error:
        sys.stderr.write(f"tidelog: {error}\n")
        raise typer.Exit(INVALID) from None
    for pipeline in found.values():
        refuse_mistakes(pipeline, check(pipeline))
    return list(found.values())


def refuse_connect() -> None:
    """Raise CommandError if the environment names a server of Spark Connect."""
    if os.environ.get("SPARK_REMOTE"):
        raise CommandError(
            "this command starts and watches a Spark driver of its own, but SPARK_REMOTE names a server of Spark "
            "Connect: unset it, and use --master. pipeline.run() takes SPARK_REMOTE"
        )


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


def with_command_config(pipeline: Pipeline, command_config: Path | None) -> Pipeline:
    """The pipeline with the client settings, and the brokers, that the file of `--command-config` names."""
    if command_config is None:
        return pipeline
    settings = parse_properties(command_config.read_text(encoding="utf-8"))
    servers = settings.get("bootstrap.servers") or pipeline.bootstrap_servers
    return replace(pipeline, command_config=command_config, client_settings={}, bootstrap_servers=servers)


@contextmanager
def cluster_of(pipeline: Pipeline, bootstrap_server: str | None) -> Iterator[Cluster]:
    """A client of the pipeline's cluster."""
    with Cluster(pipeline.connection(bootstrap_server).client()) as cluster:
        yield cluster
