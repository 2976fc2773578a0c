"""A pipeline as its file defines it: a source, steps, a sink, and a policy for rows that fail.

    pipeline = Pipeline(
        "clean-orders",
        source=topic("orders"),
        steps=[parse_json("id long, amount double"), fail_when("amount < 0", "negative amount"), pack_json(key="id")],
        sink=topic("orders.clean"),
        on_failure=RetryLadder(delays=["10s", "1m", "10m"], dead_letters="orders.dlq"),
    )

    if __name__ == "__main__":
        pipeline.run()

Importing such a file starts nothing and needs no Spark: `tidelog pipeline` checks it, plans it and runs it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tidelog.client.durations import Duration
from tidelog.spark.pipeline.definition.connection import SERVERS, Connection, load_client_settings
from tidelog.spark.pipeline.definition.endpoints import Refreshed, Sink, Source, Topic, texts
from tidelog.spark.pipeline.definition.policy import Policy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_CHECKPOINTS: Final = "tidelog-checkpoints"

Step = Callable[..., "DataFrame"]


class PipelineError(Exception):
    """A pipeline with a mistake in its definition; the text names the mistake."""


@dataclass(frozen=True)
class Pipeline:
    """A source, a chain of functions from DataFrame to DataFrame, a sink, and a policy for rows that fail.

    A step's first parameter is the rows so far; further parameters are filled by name from `tables`, the sources that
    are read whole to join with, and from `streams`, further sources that are read as streams. `sink` may be several;
    all topics among them are written in one transaction. Without `on_failure` a row that fails stops the pipeline.
    `checkpoint` stores the offsets; by default a directory named after the pipeline below TIDELOG_CHECKPOINTS or
    ./tidelog-checkpoints. `client_settings` are those of Kafka's clients (`security.protocol`, `ssl.*`, `sasl.*`), for
    all topics of the pipeline; `command_config` names a properties file with them, by default TIDELOG_COMMAND_CONFIG.
    `settings` are Spark's. `row_timeout` is how long a function may take for a row or for a batch of rows: after it the
    worker is ended and the row has failed; None has no limit. (Kafka's `max.poll.interval.ms` has the same default.)
    """

    name: str
    _: KW_ONLY
    source: Source
    sink: Sink | Sequence[Sink]
    steps: Sequence[Step] = ()
    tables: Mapping[str, Source | Refreshed] = field(default_factory=dict)
    streams: Mapping[str, Source] = field(default_factory=dict)
    on_failure: Policy | None = None
    trigger: Duration = "500ms"
    row_timeout: Duration | None = "5m"
    output_mode: str = "append"
    checkpoint: str | os.PathLike[str] | None = None
    bootstrap_servers: str | None = None
    command_config: str | os.PathLike[str] | None = None
    client_settings: Mapping[str, Any] = field(default_factory=dict, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """All sinks, also when there is one."""
        return tuple(self.sink) if isinstance(self.sink, Sequence) else (self.sink,)

    @property
    def checkpoint_path(self) -> str:
        """The checkpoint of the pipeline."""
        if self.checkpoint is not None:
            return os.fspath(self.checkpoint)
        return os.path.join(os.environ.get("TIDELOG_CHECKPOINTS") or DEFAULT_CHECKPOINTS, self.name)

    @property
    def checkpoint_paths(self) -> list[str]:
        """One for each query: without a policy, every sink of several has a query of its own, and all topics one."""
        count = len(self.written_sinks)
        if self.on_failure is not None or count == 1:
            return [self.checkpoint_path]
        return [os.path.join(self.checkpoint_path, f"sink-{number}") for number in range(1, count + 1)]

    @property
    def written_sinks(self) -> list[tuple[Sink, ...]]:
        """The sinks by who writes them: all topics together, in one transaction, and each other sink alone."""
        topics = tuple(topic_sinks(self))
        first = next((number for number, sink in enumerate(self.sinks) if isinstance(sink, Topic)), None)
        return [
            topics if number == first else (sink,)
            for number, sink in enumerate(self.sinks)
            if number == first or not isinstance(sink, Topic)
        ]

    def servers(self, override: str | None = None) -> str:
        """The brokers to start from: `override`, the definition, TIDELOG_BOOTSTRAP_SERVERS, this machine."""
        return self.connection(override).servers

    def connection(self, bootstrap_servers: str | None = None) -> Connection:
        """How the pipeline reaches its cluster. Raises PipelineError if its client settings cannot be used."""
        file = None if self.command_config is None else os.fspath(self.command_config)
        try:
            settings, path = load_client_settings(file, texts(self.client_settings))
        except ValueError as error:
            raise PipelineError(f"pipeline {self.name!r}: {error}") from None
        given = bootstrap_servers or self.bootstrap_servers or settings.get(SERVERS)
        servers = given or os.environ.get("TIDELOG_BOOTSTRAP_SERVERS") or DEFAULT_BOOTSTRAP
        return Connection(servers, tuple(sorted(settings.items())), path)


def topic_sinks(pipeline: Pipeline) -> list[Topic]:
    """Those of the sinks that are topics."""
    return [sink for sink in pipeline.sinks if isinstance(sink, Topic)]
