"""`tidelog pipeline backfill`."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.pipeline._files import PipelineFile, as_command_errors, open_pipeline, refuse_connect
from tidelog.cli.progress import progress
from tidelog.spark.pipeline.running.backfill_plan import BATCH_OFFSETS, Bound, parse_bound

EXAMPLE: Final = "tidelog pipeline backfill orders.py --from 2026-01-01 --to 2026-02-01"


def backfill(
    file: PipelineFile,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="First record: a time (UTC) or an offset.", metavar="TIME|OFFSET", show_default="the oldest"
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", help="End, exclusive: a time or an offset.", metavar="TIME|OFFSET", show_default="now"),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(help="Read the segment files in this directory instead of the cluster.", metavar="DIRECTORY"),
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of this backfill; a second backfill needs another.", metavar="NAME")
    ] = "backfill",
    batch: Annotated[int, typer.Option(help="Offsets in a part.", min=1)] = BATCH_OFFSETS,
    master: Annotated[
        str | None, typer.Option(help="Spark's master.", metavar="URL", show_default="SPARK_MASTER, else all cores")
    ] = None,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Write older records through the pipeline into its sinks, beside the running query; each record once.

    Repeat the command after a crash or a stop: it goes on where it was. Its plan is kept beside the checkpoint.
    """
    from tidelog.spark.pipeline.running.backfill import Backfill, state_of, why_no_backfill
    from tidelog.spark.pipeline.running.run import session_settings, stop_on_signals
    from tidelog.spark.session import spark_session

    refuse_connect()
    pipeline = open_pipeline(file, command_config)
    bounds = _bound("--from", start), _bound("--to", end)
    reason = why_no_backfill(pipeline)
    if reason is not None:
        raise CommandError(f"pipeline {pipeline.name!r} cannot be backfilled: {reason}")
    asked = {"--from": start, "--to": end, "--path": None if path is None else str(path.absolute())}
    with as_command_errors():
        state = state_of(pipeline, name)
        state.plan(asked)  # refused before Spark starts
        spark = spark_session(
            f"{pipeline.name}-{name}",
            master=master,
            settings={"spark.log.level": "ERROR", **session_settings([pipeline], master)},
        )
        try:
            filling = Backfill(pipeline, spark, bootstrap_server, state, None if path is None else str(path.absolute()))
            plan = filling.plan(asked, *bounds, batch)
            with stop_on_signals() as stop, progress(f"backfill {pipeline.name}", plan.total, unit="offsets") as bar:
                is_done = filling.run(plan, bar.advance, stop.is_set)
        finally:
            spark.stop()
    written = plan.total if is_done else sum(plan.size(number) for number in range(state.done))
    if output is Format.JSON:
        print_json({"pipeline": pipeline.name, "name": name, "offsets": written, "of": plan.total, "done": is_done})
        return
    end_text = "done" if is_done else "stopped: repeat the command to go on"
    sys.stdout.write(f"{written:,} of {plan.total:,} offsets of {pipeline.name} are written; {end_text}\n")


def _bound(option: str, text: str | None) -> Bound:
    try:
        return parse_bound(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a time nor an offset", param_hint=option) from None
