"""Outcomes on disk as they come, one JSON object a line, so that a long run can be interrupted and go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.hostile.measuring import Outcome
from benchmarks.hostile.requests import HostileRequest


class Journal:
    """The outcomes of the requests of this run, by broker. Those of other requests are left alone."""

    def __init__(self, path: Path, requests: Sequence[HostileRequest]) -> None:
        self._path = path
        self._requests = {request.name: request for request in requests}
        self.outcomes: dict[str, list[Outcome]] = {}
        self.baselines: dict[str, float] = {}
        self._held: set[tuple[str, str]] = set()
        if path.exists():
            for line in path.read_text().splitlines():
                self._take(json.loads(line))

    def clear(self) -> None:
        """Begin again."""
        self._path.unlink(missing_ok=True)
        self.outcomes.clear()
        self.baselines.clear()
        self._held.clear()

    def holds(self, broker: str, request: HostileRequest) -> bool:
        return (broker, request.name) in self._held

    def add(self, broker: str, outcome: Outcome) -> None:
        fields = outcome._asdict() | {"request": outcome.request.name}
        self._write({"broker": broker, "outcome": fields})

    def add_baseline(self, broker: str, wait_ms: float) -> None:
        """The bystander's worst wait without an attack."""
        self._write({"broker": broker, "baseline_ms": wait_ms})

    def _write(self, entry: dict[str, object]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        self._take(entry)

    def _take(self, entry: dict[str, object]) -> None:
        broker = str(entry["broker"])
        if "baseline_ms" in entry:
            self.baselines[broker] = float(str(entry["baseline_ms"]))
            return
        fields = entry["outcome"]
        assert isinstance(fields, dict), "written by `add`"
        request = self._requests.get(fields["request"])
        if request is None or self.holds(broker, request):
            return
        self._held.add((broker, request.name))
        self.outcomes.setdefault(broker, []).append(Outcome(**(fields | {"request": request})))
