"""`tidelog pipeline replay`."""

import sys
from typing import Annotated, Final

import typer

from tidelog.cli._clients import client_settings
from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.errors import CommandError
from tidelog.cli.output import print_json
from tidelog.cli.pipeline._files import as_command_errors, open_pipeline
from tidelog.cli.progress import progress
from tidelog.client.aio.settings import CommonSettings
from tidelog.spark.pipeline.failing.dead_letters import Filter, FilterError, parse_filter
from tidelog.spark.pipeline.failing.replay import Replay, Replayed
from tidelog.spark.pipeline.failing.routing import ladder_of

EXAMPLE: Final = "tidelog pipeline replay orders.py --filter error.type=TimeoutError --dry-run"


def replay(
    file: Annotated[
        str | None,
        typer.Argument(help="The pipeline whose dead letters to send.", metavar="FILE[:NAME]", show_default=False),
    ] = None,
    topic: Annotated[str | None, typer.Option(help="A dead-letter topic, instead of FILE.", metavar="TOPIC")] = None,
    to: Annotated[
        str | None, typer.Option(help="Send them to this topic.", metavar="TOPIC", show_default="where each came from")
    ] = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="Only matching letters: FIELD=TEXT, FIELD!=TEXT or FIELD~REGEX; all must match. Fields: key, value, "
            "pipeline, attempts, error.type, error.message, origin.topic, origin.partition, origin.offset, "
            "header.NAME; by the time of the failure failed<TIME, failed>TIME.",
            metavar="CONDITION",
        ),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Also send letters that were sent back before.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be sent.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Send dead letters back, as they were before they failed; each letter once, also over several replays."""
    asked = _asked(file, topic, to, filters or [], from_beginning, bootstrap_server, command_config)
    with as_command_errors():
        spans = asked.spans()
        total = sum(end - start for start, end in spans.values())
        with progress(f"replay {asked.dead_letters}", total, unit="offsets") as bar:
            done = asked.look(spans, bar.advance) if dry_run else asked.send(spans, bar.advance)
    _tell(asked, done, dry_run, output)


def _asked(
    file: str | None,
    topic: str | None,
    to: str | None,
    filters: list[str],
    from_beginning: bool,
    bootstrap_server: str | None,
    command_config: CommandConfig,
) -> Replay:
    if (file is None) == (topic is None):
        raise typer.BadParameter("give either a pipeline's FILE or --topic")
    try:
        conditions = [parse_filter(text) for text in filters]
    except FilterError as error:
        raise typer.BadParameter(str(error), param_hint="--filter") from None
    if file is not None:
        pipeline = open_pipeline(file, command_config)
        ladder = ladder_of(pipeline)
        if ladder is None:
            raise CommandError(f"pipeline {pipeline.name!r} has no dead letters: it has no on_failure")
        with as_command_errors():
            settings = pipeline.connection(bootstrap_server).client()
        topic = ladder.dead_letters
        # Pipelines that read the same topic may share their dead-letter topic.
        conditions.append(Filter("pipeline", "=", pipeline.name))
    else:
        settings = client_settings(bootstrap_server, command_config, CommonSettings)
    assert topic is not None, "checked above"
    if to == topic:
        raise typer.BadParameter(f"--to {to!r} is the dead-letter topic itself")
    servers = str(settings.pop("bootstrap.servers"))
    return Replay(servers, topic, to, conditions, from_beginning, settings)


def _tell(asked: Replay, done: Replayed, dry_run: bool, output: Format) -> None:
    if output is Format.JSON:
        print_json(
            {
                "dead_letters": asked.dead_letters,
                "sent": done.sent,
                "kept": done.kept,
                "without_origin": done.without_origin,
                "dry_run": dry_run,
            }
        )
        return
    verb = "would be sent" if dry_run else "sent"
    for target, count in sorted(done.sent.items()):
        sys.stdout.write(f"{count:,} dead letters of {asked.dead_letters} {verb} to {target}\n")
    if not done.sent:
        sys.stdout.write(f"no dead letters of {asked.dead_letters} to send\n")
    if done.kept:
        sys.stdout.write(f"{done.kept:,} stay dead letters\n")
    if done.without_origin:
        sys.stderr.write(f"tidelog: {done.without_origin:,} have no origin topic in their headers: give --to\n")
