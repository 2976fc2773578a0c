"""OpenLineage events of pipelines: which datasets each run reads and writes, sent to a lineage service over HTTP.

One run of OpenLineage is one start of a pipeline: START, RUNNING with every report, then COMPLETE (also for a pipeline
that was stopped between two batches) or FAIL with the reason. Datasets are named by OpenLineage's rules: a topic is
`kafka://host:port` and its name, a file or table `file` (or the scheme and authority of its location) and its path.
What expectations have found is a facet of the first input. Events follow version 2-0-2 of the specification.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tidelog.spark.pipeline.definition.endpoints import Delta, Files, Sink, Source, Topic, table_source
from tidelog.spark.pipeline.definition.expectations import Counts
from tidelog.spark.pipeline.definition.pipeline import Pipeline
from tidelog.spark.pipeline.failing.routing import ladder_of
from tidelog.spark.pipeline.running.supervision import PipelineStatus, State

LOG: Final = logging.getLogger("tidelog.pipeline")

PRODUCER: Final = "urn:tidelog:pipeline"
_SCHEMA: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_ERROR_SCHEMA: Final = "https://openlineage.io/spec/facets/1-0-0/ErrorMessageRunFacet.json"
_JOB_SCHEMA: Final = "https://openlineage.io/spec/facets/2-0-3/JobTypeJobFacet.json"
_QUALITY_SCHEMA: Final = "https://openlineage.io/spec/facets/1-0-1/DataQualityAssertionsDatasetFacet.json"
_PATH: Final = "/api/v1/lineage"
_NAMESPACE_DEFAULT: Final = "tidelog"
_TIMEOUT_S: Final = 5.0

_EVENT_TYPES: Final[Mapping[State, str]] = {
    State.STARTING: "START",
    State.RUNNING: "RUNNING",
    State.RESTARTING: "FAIL",
    State.FAILED: "FAIL",
    State.DONE: "COMPLETE",
    State.STOPPED: "COMPLETE",
}


class LineageWriter:
    """Sends an event for each status. A service that does not answer is logged; the pipelines go on."""

    def __init__(self, url: str, pipelines: Iterable[Pipeline], servers: Mapping[str, str]) -> None:
        self._url = url if urlsplit(url).path.strip("/") else url.rstrip("/") + _PATH
        self._namespace = os.environ.get("OPENLINEAGE_NAMESPACE") or _NAMESPACE_DEFAULT
        self._key = os.environ.get("OPENLINEAGE_API_KEY")
        self._datasets = {each.name: datasets(each, servers[each.name]) for each in pipelines}
        self._is_reachable = True

    def write(self, status: PipelineStatus) -> None:
        """Send one event."""
        inputs, outputs = self._datasets[status.pipeline]
        event = run_event(status, self._namespace, inputs, outputs, datetime.now(UTC))
        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        request = Request(self._url, json.dumps(event).encode(), headers)  # noqa: S310 - checked by the command
        try:
            with urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
                self._is_reachable = True
        except (URLError, OSError) as error:
            if self._is_reachable:
                LOG.warning("OpenLineage: no event reached %s: %s", self._url, error)
            self._is_reachable = False

    def close(self) -> None:
        """Nothing is left to send."""


def run_event(
    status: PipelineStatus,
    namespace: str,
    inputs: list[dict[str, Any]],
    outputs: list[dict[str, Any]],
    now: datetime,
) -> dict[str, Any]:
    """The event for a status."""
    facets: dict[str, Any] = {}
    kind = _EVENT_TYPES[status.state]
    if kind == "FAIL":
        facets["errorMessage"] = {
            "_producer": PRODUCER,
            "_schemaURL": _ERROR_SCHEMA,
            "message": status.error or "",
            "programmingLanguage": "PYTHON",
        }
    quality = _quality_facet(status.rules)
    if quality is not None and inputs:
        inputs = [{**inputs[0], "inputFacets": {"dataQualityAssertions": quality}}, *inputs[1:]]
    job_type = {
        "_producer": PRODUCER,
        "_schemaURL": _JOB_SCHEMA,
        "processingType": "STREAMING",
        "integration": "TIDELOG",
        "jobType": "PIPELINE",
    }
    return {
        "eventType": kind,
        "eventTime": now.isoformat(timespec="milliseconds"),
        "run": {"runId": status.run_id, "facets": facets},
        "job": {"namespace": namespace, "name": status.pipeline, "facets": {"jobType": job_type}},
        "inputs": inputs,
        "outputs": outputs,
        "producer": PRODUCER,
        "schemaURL": _SCHEMA,
    }


def _quality_facet(rules: Counts) -> dict[str, Any] | None:
    """What expectations have found in the source's rows, since the process started."""
    if not rules:
        return None
    assertions = [
        {"assertion": rule, "success": count.failed == 0, "rowCount": count.evaluated, "failedRowCount": count.failed}
        for rule, count in rules.items()
    ]
    return {"_producer": PRODUCER, "_schemaURL": _QUALITY_SCHEMA, "assertions": assertions}


def datasets(pipeline: Pipeline, servers: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What a pipeline reads and writes. A topic pattern, and topics named by a column, are not known before a run."""
    ladder = ladder_of(pipeline)
    own = [*ladder.retry_topics, ladder.dead_letters] if ladder is not None else []
    tables = [table_source(table) for table in pipeline.tables.values()]
    read = (pipeline.source, *pipeline.streams.values(), *tables)
    inputs = [each for source in read for each in _of(source, servers)]
    outputs = [each for sink in pipeline.sinks for each in _of(sink, servers)]
    return inputs, [*outputs, *(_topic(name, servers) for name in own)]


def _of(place: Source | Sink, servers: str) -> list[dict[str, str]]:
    if isinstance(place, Topic):
        return [_topic(name, servers) for name in place.names]
    path = place.path if isinstance(place, Files | Delta) else None
    return [] if not path else [_location(path)]


def _topic(name: str, servers: str) -> dict[str, str]:
    return {"namespace": f"kafka://{servers.split(',')[0].strip()}", "name": name}


def _location(path: str) -> dict[str, str]:
    parts = urlsplit(path)
    if not parts.scheme or parts.scheme == "file":
        return {"namespace": "file", "name": os.path.abspath(parts.path if parts.scheme else path)}
    return {"namespace": f"{parts.scheme}://{parts.netloc}", "name": parts.path.lstrip("/")}
