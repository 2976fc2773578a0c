"""How a running pipeline is shown: a live table on a terminal, a line per batch in a log, JSON lines for programs."""

import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Protocol

from tidelog.cli.output import live_table
from tidelog.spark.pipeline.definition.expectations import counts_in

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tidelog.spark.pipeline.running.supervision import PipelineStatus
    from tidelog.spark.source.progress import QueryProgress


HEADINGS: Final = ("QUERY", "BATCH", "ROWS", "IN/S", "PROCESSED/S", "LAG", "BATCH-MS", "STATE")
_TABLE_COLUMNS: Final = 76
"""Narrower terminals get a line of text for each query instead of the table."""


class View(Protocol):
    """Shows the progress of a pipeline."""

    def starting(self, pipeline: str) -> None:
        """Spark is starting, which takes a few seconds."""

    def started(self, pipeline: str, facts: dict[str, str]) -> None:
        """Its queries run."""

    def progress(self, progress: "QueryProgress") -> None:
        """A micro-batch is done."""

    def failed(self, status: "PipelineStatus") -> None:
        """A pipeline has failed: it restarts, or it has given up."""

    def tick(self) -> None:
        """Some time has passed."""

    def ended(self, outcome: str, message: str | None) -> None:
        """It is over: `done`, `stopped` or `failed`."""


class JsonView:
    """An object a line on stdout."""

    def starting(self, pipeline: str) -> None:
        """No event before it runs."""

    def started(self, pipeline: str, facts: dict[str, str]) -> None:
        self._put({"event": "started", "pipeline": pipeline, **facts})

    def progress(self, progress: "QueryProgress") -> None:
        self._put({"event": "progress", **asdict(progress)})

    def failed(self, status: "PipelineStatus") -> None:
        event = "gave_up" if status.restart_in_s is None else "restarting"
        shown = {"restarts": status.restarts, "restart_in_s": status.restart_in_s, "message": status.error}
        self._put({"event": event, "pipeline": status.pipeline, **shown})

    def tick(self) -> None:
        """Nothing to show between events."""

    def ended(self, outcome: str, message: str | None) -> None:
        self._put({"event": outcome, "message": message})

    @staticmethod
    def _put(value: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        sys.stdout.flush()


class LineView:
    """A line for each batch that had rows, on stderr."""

    def __init__(self) -> None:
        self._rows = 0
        self._batches = 0
        self._began = time.monotonic()

    def starting(self, pipeline: str) -> None:
        """No line before it runs."""

    def started(self, pipeline: str, facts: dict[str, str]) -> None:
        self._put(f"{pipeline}: running, " + ", ".join(f"{name} {value}" for name, value in facts.items()))

    def progress(self, progress: "QueryProgress") -> None:
        self._batches += 1
        self._rows += progress.input_rows
        if progress.input_rows:
            self._put(f"{progress.name}: {line_of(progress)}")

    def failed(self, status: "PipelineStatus") -> None:
        self._put(failure_of(status))

    def tick(self) -> None:
        """Nothing to show between batches."""

    def ended(self, outcome: str, message: str | None) -> None:
        elapsed_s = time.monotonic() - self._began
        self._put(f"{outcome}: {self._rows:,} rows in {self._batches} batches, {elapsed_s:.1f} s")
        if message is not None:
            self._put(message)

    @staticmethod
    def _put(line: str) -> None:
        sys.stderr.write(line + "\n")


class LiveView:
    """A table that changes in place, on the terminal of stderr."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._latest: dict[str, QueryProgress] = {}
        self._totals: dict[str, int] = {}
        self._title = ""
        self._names: list[str] = []
        self._began = time.monotonic()
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=False)

    def starting(self, pipeline: str) -> None:
        self._live.start()
        self._live.update(f"[bold]{pipeline}[/bold]  starting Spark", refresh=True)

    def started(self, pipeline: str, facts: dict[str, str]) -> None:
        self._names = [name for name in self._names if name != pipeline] + [pipeline]
        self._title = f"{', '.join(self._names)}  " + "  ".join(
            f"[dim]{name}[/dim] {value}" for name, value in facts.items()
        )
        self.tick()

    def progress(self, progress: "QueryProgress") -> None:
        self._latest[progress.name] = progress
        self._totals[progress.name] = self._totals.get(progress.name, 0) + progress.input_rows

    def failed(self, status: "PipelineStatus") -> None:
        self._live.console.print(failure_of(status), markup=False, highlight=False)

    def tick(self) -> None:
        is_wide = self._live.console.width >= _TABLE_COLUMNS
        self._live.update(self._table() if is_wide else self._lines(), refresh=True)

    def ended(self, outcome: str, message: str | None) -> None:
        if self._live.is_started:
            if self._title:
                self.tick()
            self._live.stop()
        rows = sum(self._totals.values())
        sys.stderr.write(f"{outcome}: {rows:,} rows, {time.monotonic() - self._began:.1f} s\n")
        if message is not None:
            sys.stderr.write(message + "\n")

    def _caption(self) -> str:
        elapsed_s = int(time.monotonic() - self._began)
        return f"{elapsed_s // 60}:{elapsed_s % 60:02d}  Ctrl-C stops between two batches"

    def _lines(self) -> "RenderableType":
        lines = [f"[bold]{name}[/bold]  {line_of(progress)}" for name, progress in self._latest.items()]
        return "\n".join([self._title, *(lines or ["waiting for the first batch"]), f"[dim]{self._caption()}[/dim]"])

    def _table(self) -> "RenderableType":
        from rich.console import Group

        if not self._latest:
            return self._lines()
        rows = [(name, *cells_of(progress, self._totals[name])) for name, progress in self._latest.items()]
        return Group(self._title, live_table(HEADINGS, rows, caption=self._caption()))


def failure_of(status: "PipelineStatus") -> str:
    """The failure of a pipeline in a line."""
    after = "gave up" if status.restart_in_s is None else f"restart {status.restarts} in {status.restart_in_s:g} s"
    return f"{status.pipeline}: failed, {after}: {status.error}"


def cells_of(progress: "QueryProgress", total_rows: int) -> list[object]:
    """One query's row of the live table."""
    return [
        progress.batch_id,
        total_rows,
        round(progress.input_rows_per_second),
        round(progress.processed_rows_per_second),
        "-" if progress.lag_records is None else progress.lag_records,
        progress.batch_ms,
        _state(progress),
    ]


def line_of(progress: "QueryProgress") -> str:
    """One batch in a line of a log."""
    lag = "" if progress.lag_records is None else f", lag {progress.lag_records:,}"
    state = f", state {_state(progress)}" if progress.state_rows else ""
    state += f", {progress.late_rows:,} late and dropped" if progress.late_rows else ""
    state += "".join(
        f", {count.failed:,} fail {rule!r}" for rule, count in counts_in(progress.observed).items() if count.failed
    )
    return (
        f"batch {progress.batch_id}: {progress.input_rows:,} rows in {progress.batch_ms:,} ms, "
        f"{progress.input_rows_per_second:,.0f} in/s, {progress.processed_rows_per_second:,.0f} processed/s{lag}{state}"
    )


def _state(progress: "QueryProgress") -> str:
    if not progress.state_rows:
        return "-"
    return f"{progress.state_rows:,} rows, {progress.state_bytes / 1e6:,.1f} MB"
