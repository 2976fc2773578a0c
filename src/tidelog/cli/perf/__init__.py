"""`tidelog perf`: measure the produce and fetch throughput of a cluster.

The client must cost less than the broker: frames are built once and sent over a raw socket, and replies are read
without decoding their records.
"""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.perf import consume, produce


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    perf = noun(application, "perf", "Measure the produce and fetch throughput of a cluster.")
    verb(perf, "produce", produce.produce, produce.EXAMPLE)
    verb(perf, "consume", consume.consume, consume.EXAMPLE)
