"""`tidelog demo`: runs the demonstrations of `tidelog.examples.demo`.

tidelog demo                 a broker, a producer and an exactly-once Spark pipeline, with rows that fail (`spark`)
tidelog demo broker          a broker alone (`broker`)
tidelog demo exactly-once    consume, transform, produce, by clients that are killed (`exactly_once`)
tidelog demo failover        a leader that is killed under load, and what producers see of it (`failover`)
tidelog demo sync, async     sending with and without waiting (`sync_async`)
"""

from typing import Annotated, Final

import typer

from tidelog.cli._options import Format, OutputFormat
from tidelog.cli._verbs import verb

EXAMPLE: Final = "tidelog demo --seconds 20"
FAILOVER_EXAMPLE: Final = "tidelog demo failover --seconds 12 --rate 1000"


def register(application: typer.Typer) -> None:
    """Add the command, which runs alone or is followed by the name of another demonstration."""
    from tidelog.examples.demo import broker, exactly_once, sync_async

    group = typer.Typer(context_settings={"help_option_names": ["-h", "--help"]}, epilog=f"Example: {EXAMPLE}")
    group.callback(invoke_without_command=True)(demo)
    verb(group, "broker", broker.broker, broker.EXAMPLE)
    verb(group, "exactly-once", exactly_once.exactly_once, exactly_once.EXAMPLE)
    verb(group, "failover", failover, FAILOVER_EXAMPLE)
    verb(group, "sync", sync_async.sync, sync_async.SYNC_EXAMPLE)
    verb(group, "async", sync_async.async_, sync_async.ASYNC_EXAMPLE)
    application.add_typer(group, name="demo")


def demo(
    context: typer.Context,
    seconds: Annotated[int, typer.Option(help="How long to produce orders.", min=1)] = 25,
    rate: Annotated[int, typer.Option(help="Orders a second.", min=5)] = 2000,
    picture: Annotated[str, typer.Option(help="File for the plot of throughput and lag.")] = "tidelog-demo.png",
) -> None:
    """Run a demonstration: a broker, a producer, an exactly-once Spark pipeline with failing rows, a plot."""
    if context.invoked_subcommand is None:
        from tidelog.examples.demo import spark

        spark.run(seconds, rate, picture)


def failover(
    seconds: Annotated[float, typer.Option(help="How long to produce.", min=1)] = 12.0,
    rate: Annotated[int, typer.Option(help="Records a second.", min=1)] = 1000,
    picture: Annotated[str | None, typer.Option(help="File for a plot of the latencies (needs matplotlib).")] = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Kill the leader of a replicated topic under load, show what its producer saw, and read everything back."""
    from tidelog.examples.demo import failover as demonstration

    demonstration.run(seconds, rate, picture, is_json=output is Format.JSON)
