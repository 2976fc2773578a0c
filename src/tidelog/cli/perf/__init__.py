"""`tidelog perf`: how fast a cluster takes and gives records.

The load is meant to cost less than the broker: frames are built once and sent over a raw socket, replies are read
without decoding what they carry.
"""

import typer

from tidelog.cli._verbs import noun, verb
from tidelog.cli.perf import consume, produce


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    perf = noun(application, "perf", "Measure how fast a cluster takes and gives records.")
    verb(perf, "produce", produce.produce, produce.EXAMPLE)
    verb(perf, "consume", consume.consume, consume.EXAMPLE)
