"""`tidelog pipeline validate`."""

import sys
from typing import Annotated, Any, Final

import typer

from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.cli.pipeline._files import PipelineFile, as_command_errors, cluster_of, with_command_config
from tidelog.spark.pipeline.checks.cluster import check_cluster
from tidelog.spark.pipeline.checks.definition import Problem, check
from tidelog.spark.pipeline.checks.survey import survey
from tidelog.spark.pipeline.definition.loading import load_pipelines, split_spec
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError

EXAMPLE: Final = "tidelog pipeline validate orders.py"

INVALID: Final = 2


def validate(
    file: PipelineFile,
    offline: Annotated[bool, typer.Option("--offline", help="Do not check the topics in the cluster.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Find the mistakes in a pipeline before Spark starts.

    Exit code 0: no mistakes (perhaps warnings); 2: mistakes; 1: the cluster cannot be reached.
    """
    try:
        pipelines = _chosen(file)
    except PipelineError as error:
        _tell({}, [("", Problem("file", str(error)))], output)
        raise typer.Exit(INVALID) from None
    found: list[tuple[str, Problem]] = []
    for defined in pipelines.values():
        pipeline = with_command_config(defined, command_config)
        problems = check(pipeline)
        if not offline and not any(not each.is_warning for each in problems):
            with as_command_errors(), cluster_of(pipeline, bootstrap_server) as cluster:
                problems += check_cluster(pipeline, survey(pipeline, cluster, with_offsets=False))
        found += [(pipeline.name, problem) for problem in problems]
    _tell(pipelines, found, output)
    if any(not problem.is_warning for _, problem in found):
        raise typer.Exit(INVALID)


def _chosen(file: str) -> dict[str, Pipeline]:
    path, name = split_spec(file)
    found = load_pipelines(path)
    chosen = {each: pipeline for each, pipeline in found.items() if name in (None, each, pipeline.name)}
    if not chosen:
        raise PipelineError(f"{path} has no pipeline {name!r}; it has {', '.join(found)}")
    return chosen


def _tell(pipelines: dict[str, Pipeline], found: list[tuple[str, Problem]], output: Format) -> None:
    if output is Format.JSON:
        print_json({"valid": not any(not each.is_warning for _, each in found), "problems": _as_json(found)})
        return
    for name, problem in found:
        kind = "warning" if problem.is_warning else "error"
        sys.stderr.write(f"{kind}: {f'{name}: ' if name else ''}{problem}\n")
    wrong = {name for name, problem in found if not problem.is_warning}
    for pipeline in pipelines.values():
        if pipeline.name not in wrong:
            print_line(f"{pipeline.name}: valid")


def _as_json(found: list[tuple[str, Problem]]) -> list[dict[str, Any]]:
    return [
        {
            "pipeline": name or None,
            "severity": "warning" if problem.is_warning else "error",
            "setting": problem.setting,
            "message": problem.message,
        }
        for name, problem in found
    ]
