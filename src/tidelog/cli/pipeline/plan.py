"""`tidelog pipeline plan`."""

from typing import Final

from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat
from tidelog.cli.output import print_json, print_line, print_table
from tidelog.cli.pipeline._files import PipelineFile, as_command_errors, cluster_of, open_pipeline
from tidelog.spark.pipeline.checks.survey import survey
from tidelog.spark.pipeline.running.checkpoints import read_positions
from tidelog.spark.pipeline.running.plan import Plan, make_plan, policy_text

EXAMPLE: Final = "tidelog pipeline plan orders.py"


def plan(
    file: PipelineFile,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Show what a pipeline would read and write, without running it."""
    pipeline = open_pipeline(file, command_config)
    with as_command_errors(), cluster_of(pipeline, bootstrap_server) as cluster:
        found = survey(pipeline, cluster)
    planned = make_plan(pipeline, found, read_positions(pipeline.checkpoint_paths))
    if output is Format.JSON:
        print_json(planned.as_json())
    else:
        _print(planned, policy_text(pipeline))


def _print(planned: Plan, policy: str) -> None:
    print_line(f"pipeline    {planned.pipeline}")
    done = "none done yet" if planned.last_batch is None else f"batch {planned.last_batch} done"
    print_line(f"checkpoint  {planned.checkpoint} ({planned.checkpoint_note or done})")
    print_line(f"trigger     every {planned.trigger}, output mode {planned.output_mode}")
    print_line(f"on failure  {policy}")
    for source in planned.other_sources:
        print_line(f"reads       {source}")
    if planned.reads:
        print_line()
        rows = [
            (read.topic, read.partition, _or_dash(read.start), read.end, _or_dash(read.lag), read.why)
            for read in planned.reads
        ]
        print_table(("READS", "PARTITION", "FROM", "TO", "LAG", "BECAUSE"), rows)
        print_line(f"total lag: {_or_dash(planned.lag)}")
    print_line()
    for number, step in enumerate(planned.steps, start=1):
        print_line(f"step {number}      {step}")
    for sink in planned.sinks:
        print_line(f"writes      {sink}")
    for name, meaning, exists in planned.own_topics:
        print_line(f"writes      topic {name}: {meaning}{'' if exists else ' (will be created)'}")


def _or_dash(number: int | None) -> object:
    return "-" if number is None else number
