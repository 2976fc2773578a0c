"""`tidelog pipeline describe`."""

from typing import Any, Final

from tidelog.cli._options import Format, OutputFormat
from tidelog.cli.output import print_json, print_line
from tidelog.cli.pipeline._files import PipelineFile, open_pipeline
from tidelog.client.durations import milliseconds, spoken
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.failing.routing import ladder_of
from tidelog.spark.pipeline.running.checkpoints import Position, read_positions
from tidelog.spark.pipeline.running.plan import ladder_topics, policy_text, step_text

EXAMPLE: Final = "tidelog pipeline describe orders.py --format json"


def describe(file: PipelineFile, output: OutputFormat = Format.TEXT) -> None:
    """Describe a pipeline: its parts, policy and progress. Does not connect to the cluster or start Spark."""
    pipeline = open_pipeline(file)
    described = _described(pipeline, read_positions(pipeline.checkpoint_paths))
    if output is Format.JSON:
        print_json(described)
        return
    for name, value in described.items():
        lines = value if isinstance(value, list) else [value]
        for number, line in enumerate(lines):
            text = ": ".join(map(str, line.values())) if isinstance(line, dict) else line
            print_line(f"{name.replace('_', ' ') if number == 0 else '':<14}{'-' if text is None else text}")


def _described(pipeline: Pipeline, position: Position | None) -> dict[str, Any]:
    topics = ladder_topics(ladder_of(pipeline))
    return {
        "name": pipeline.name,
        "description": pipeline.description or None,
        "source": str(pipeline.source),
        "tables": [f"{name} = {source}" for name, source in pipeline.tables.items()],
        "steps": [step_text(step) for step in pipeline.steps],
        "sinks": [str(sink) for sink in pipeline.sinks],
        "on_failure": policy_text(pipeline),
        "own_topics": [{"topic": name, "meaning": meaning} for name, meaning in topics],
        "trigger": spoken(milliseconds(pipeline.trigger)),
        "output_mode": pipeline.output_mode,
        "checkpoint": pipeline.checkpoint_path,
        "last_batch": None if position is None else position.batch_id,
        "query_id": None if position is None else position.query_id,
        "settings": [f"{name}={value}" for name, value in pipeline.settings.items()],
    }
