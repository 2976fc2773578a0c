"""The status of running pipelines in a compacted topic of their cluster, for `tidelog pipeline status` on any machine.

The key of a record is the pipeline's name, its value a JSON object. A process writes one when a state changes and one
every `HEARTBEAT_S` while it runs: a pipeline whose last record is older than that, without a final state, was killed.
"""

import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final

from tidelog.client.aio.admin.types import EARLIEST, LATEST, NewTopic
from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.client.producer import Producer
from tidelog.client.types import TopicPartition
from tidelog.spark.pipeline.definition.connection import Connection
from tidelog.spark.pipeline.definition.expectations import RuleCount
from tidelog.spark.pipeline.running.supervision import FINAL, PipelineStatus, State
from tidelog.wire.errors import ApiError, ErrorCode

LOG: Final = logging.getLogger("tidelog.pipeline")

STATUS_TOPIC: Final = "__tidelog_pipeline_status"
HEARTBEAT_S: Final = 5.0
LOST_AFTER_S: Final = 3 * HEARTBEAT_S
LOST: Final = "lost"

_LAST_OF_EACH_KEY: Final = {
    "cleanup.policy": "compact",
    # Small, because compaction leaves the newest segment alone and every reader reads all of it.
    "segment.bytes": str(1024 * 1024),
    "min.cleanable.dirty.ratio": "0.1",
}
_REPLICAS_MAX: Final = 3
_CLOSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class RuleSeen:
    """An expectation, and what it has found."""

    rule: str
    count: RuleCount


@dataclass(frozen=True, slots=True)
class Seen:
    """The status of a pipeline as its topic has it."""

    pipeline: str
    state: str
    """A `State`, or `LOST` if its process stopped writing without a final state."""
    age_s: float
    facts: Mapping[str, Any]

    @property
    def rules(self) -> list[RuleSeen]:
        """What its expectations have found since its process started."""
        given = self.facts.get("rules")
        return [
            RuleSeen(str(rule), RuleCount(int(count.get("evaluated") or 0), int(count.get("failed") or 0)))
            for rule, count in (given.items() if isinstance(given, Mapping) else ())
            if isinstance(count, Mapping)
        ]

    @property
    def is_healthy(self) -> bool:
        """Whether it runs, or has ended as it should."""
        return self.state not in (State.FAILED, LOST)


class StatusWriter:
    """Writes the statuses of this process. Errors are logged once; the pipelines go on."""

    def __init__(self, connections: Mapping[str, Connection], facts: Mapping[str, str]) -> None:
        """`connections` are those of each pipeline, by its name; `facts` go into every record."""
        self._connections = connections
        self._facts = {"host": socket.gethostname(), "pid": os.getpid(), "started_ms": _now_ms(), **facts}
        self._producers: dict[Connection, Producer | None] = {}

    def write(self, status: PipelineStatus) -> None:
        """Write one status; it is sent in the background."""
        producer = self._producer(self._connections[status.pipeline])
        if producer is not None:
            producer.send(STATUS_TOPIC, as_json(status, self._facts), status.pipeline.encode(), partition=0)

    def close(self) -> None:
        """Send what is left."""
        for producer in self._producers.values():
            if producer is not None:
                with suppress(ApiError, ClientError):
                    producer.close(_CLOSE_S)

    def _producer(self, connection: Connection) -> Producer | None:
        if connection not in self._producers:
            try:
                _make_topic(connection)
                settings = {**connection.client(), "client.id": "tidelog-pipeline-status"}
                self._producers[connection] = Producer(settings)
            except (ApiError, ClientError) as error:
                LOG.warning("no status for `tidelog pipeline status`: topic %s: %s", STATUS_TOPIC, error)
                self._producers[connection] = None
        return self._producers[connection]


def as_json(status: PipelineStatus, facts: Mapping[str, Any]) -> bytes:
    """The value of a record."""
    shown = asdict(status)
    shown["queries"] = list(shown["queries"].values())
    return json.dumps({**shown, "lag_records": status.lag_records, **facts}, ensure_ascii=False).encode()


def read_statuses(cluster: Cluster) -> list[Seen]:
    """The last status of every pipeline that has run on the cluster, by name."""
    found = dict(_last_records(cluster))
    now_ms = _now_ms()
    return [_seen(name, timestamp_ms, facts, now_ms) for name, (timestamp_ms, facts) in sorted(found.items())]


def _last_records(cluster: Cluster) -> Iterator[tuple[str, tuple[int, dict[str, Any]]]]:
    if STATUS_TOPIC not in cluster.look_at_topics([STATUS_TOPIC]).topics:
        return
    where = TopicPartition(STATUS_TOPIC, 0)
    start = cluster.list_offsets({where: EARLIEST})[where].offset
    end = cluster.list_offsets({where: LATEST})[where].offset
    for record in cluster.read({where: start}, {where: end}):
        with suppress(ValueError):
            facts = json.loads(bytes(record.value or b""))
            if isinstance(facts, dict):
                yield bytes(record.key or b"").decode("utf-8", "replace"), (record.timestamp, facts)


def _seen(name: str, timestamp_ms: int, facts: dict[str, Any], now_ms: int) -> Seen:
    state, age_s = str(facts.get("state")), max(0.0, (now_ms - timestamp_ms) / 1000)
    is_final = state in {each.value for each in FINAL}
    return Seen(name, LOST if age_s > LOST_AFTER_S and not is_final else state, age_s, facts)


def _make_topic(connection: Connection) -> None:
    with Cluster(connection.client()) as cluster:
        if STATUS_TOPIC in cluster.look_at_topics([STATUS_TOPIC]).topics:
            return
        replicas = min(_REPLICAS_MAX, len(cluster.describe_cluster().nodes))
        try:
            cluster.create_topics([NewTopic(STATUS_TOPIC, 1, replicas, configs=_LAST_OF_EACH_KEY)])
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
