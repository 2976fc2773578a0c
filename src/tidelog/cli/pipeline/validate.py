"""`tidelog pipeline validate`."""

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final

import typer

from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.cli.pipeline._files import PipelineFile, as_command_errors, cluster_of, with_command_config
from tidelog.cli.pipeline._spark_log import log_file, query_errors_into, stderr_into
from tidelog.spark.pipeline.checks.cluster import check_cluster
from tidelog.spark.pipeline.checks.definition import Problem, check
from tidelog.spark.pipeline.checks.survey import survey
from tidelog.spark.pipeline.definition.loading import choose_pipelines
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError

EXAMPLE: Final = "tidelog pipeline validate orders.py"

INVALID: Final = 2
_SETTINGS: Final = {"spark.log.level": "OFF", "spark.ui.enabled": "false"}


def validate(
    file: PipelineFile,
    offline: Annotated[bool, typer.Option("--offline", help="Do not check the topics in the cluster.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan/--no-plan", help="Let Spark plan the steps: finds all that `run` would refuse.")
    ] = True,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Find the mistakes in a pipeline before it runs: all that `run` would refuse.

    Spark plans the steps, without a broker and without a row; that takes some seconds. Exit code 0: no mistakes
    (perhaps warnings); 2: mistakes; 1: the cluster cannot be reached.
    """
    try:
        pipelines = choose_pipelines(file)
    except PipelineError as error:
        _tell({}, [("", Problem("file", str(error)))], output)
        raise typer.Exit(INVALID) from None
    found: list[tuple[str, Problem]] = []
    sound: list[Pipeline] = []
    for defined in pipelines.values():
        pipeline = with_command_config(defined, command_config)
        problems = check(pipeline)
        if not offline and not _are_mistakes(problems):
            with as_command_errors(), cluster_of(pipeline, bootstrap_server) as cluster:
                problems += check_cluster(pipeline, survey(pipeline, cluster, with_offsets=False))
        found += [(pipeline.name, problem) for problem in problems]
        sound += [] if _are_mistakes(problems) else [pipeline]
    if plan and sound:
        found += _planned(sound)
    _tell(pipelines, found, output)
    if _are_mistakes(problem for _, problem in found):
        raise typer.Exit(INVALID)


def _are_mistakes(problems: Iterable[Problem]) -> bool:
    return any(not problem.is_warning for problem in problems)


def _planned(pipelines: Sequence[Pipeline]) -> list[tuple[str, Problem]]:
    """What Spark refuses, in a session for these plans alone."""
    try:
        from tidelog.spark.internals import end_java
        from tidelog.spark.pipeline.running.rehearsal import plan_problems
        from tidelog.spark.session import spark_session
    except ModuleNotFoundError as error:
        missing = f"the steps were not planned: {error.name} is missing: pip install 'tidelog[spark-local]'"
        return [(each.name, Problem("steps", missing, is_warning=True)) for each in pipelines]
    with log_file(verbose=False) as log:
        assert log is not None
        query_errors_into(log)
        with stderr_into(log):
            try:
                spark = spark_session("validate", master="local[1]", settings=_SETTINGS)
                return [(each.name, problem) for each in pipelines for problem in plan_problems(each, spark)]
            finally:
                end_java()
                log.unlink(missing_ok=True)


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
