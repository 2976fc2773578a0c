"""Whether nothing is left for a pipeline, rows that wait to be tried again included. No Spark.

`tidelog pipeline run --drain` asks now and then, and stops the pipeline.
"""

import time
from collections.abc import Callable
from typing import Final

from tidelog.client.cluster import Cluster
from tidelog.spark.pipeline.checkpoints import read_positions
from tidelog.spark.pipeline.definition import Pipeline
from tidelog.spark.pipeline.plan import make_plan
from tidelog.spark.pipeline.survey import survey

_LOOK_EVERY_S: Final = 0.5


def drained(pipeline: Pipeline, servers: str, finds_nothing: Callable[[], bool]) -> Callable[[], bool]:
    """A function that tells whether every query has done all there is. `finds_nothing` asks the queries themselves.

    Their checkpoints must be on this machine.
    """
    look_at = time.monotonic()

    def is_drained() -> bool:
        nonlocal look_at
        if time.monotonic() < look_at:
            return False
        look_at = time.monotonic() + _LOOK_EVERY_S
        position = read_positions(pipeline.checkpoint_paths)
        with Cluster(bootstrap_servers=servers) as cluster:
            lag = make_plan(pipeline, survey(pipeline, cluster), position).lag
        # A query that starts at a time has no lag before its first batch, which never comes if there is no such record.
        return lag == 0 if lag is not None else finds_nothing()

    return is_drained
