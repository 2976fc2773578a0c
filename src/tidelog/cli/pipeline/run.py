"""`tidelog pipeline run`."""

import json
import logging
import os
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, parse_assignments
from tidelog.cli.errors import CommandError, explain
from tidelog.cli.pipeline._files import PipelineFile, cluster_of, open_pipeline, refuse_mistakes, servers_of
from tidelog.cli.pipeline._views import JsonView, LineView, LiveView, View
from tidelog.spark.pipeline.checks.cluster import check_cluster
from tidelog.spark.pipeline.checks.definition import Problem, check
from tidelog.spark.pipeline.checks.survey import survey
from tidelog.spark.pipeline.definition.endpoints import Topic
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError
from tidelog.spark.pipeline.failing.failures import in_a_sentence
from tidelog.spark.pipeline.running.checkpoints import is_local, why_unwritable
from tidelog.spark.pipeline.running.plan import drained

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.spark.source.progress import QueryProgress

EXAMPLE: Final = "tidelog pipeline run orders.py --master 'local[4]'"

FAILED: Final = 1
INTERRUPTED: Final = 130


def run(
    file: PipelineFile,
    once: Annotated[
        bool, typer.Option("--once", help="Stop when all records that exist now, and are due, are processed.")
    ] = False,
    continuous: Annotated[bool, typer.Option("--continuous", help="Run until stopped; this is the default.")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop when nothing is left, including rows that wait for a retry.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(help="Spark's master.", metavar="URL", show_default="SPARK_MASTER, else all cores")
    ] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Checkpoint directory.", show_default="the pipeline's")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's log and full error messages.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Run a pipeline and watch it.

    SIGINT and SIGTERM stop it between two batches; an interrupted batch is repeated by the next run, and its rows are
    written once. Exit code 0: done, or stopped by SIGTERM; 1: the pipeline failed; 2: wrong options or mistakes in the
    definition; 130: stopped by SIGINT.
    """
    if once + continuous + drain > 1:
        raise typer.BadParameter("choose one of --once, --continuous and --drain")
    pipeline = _checked(file, checkpoint, conf or [], bootstrap_server, command_config)
    refuse_mistakes(pipeline, _checkpoint_problems(pipeline.checkpoint_path, drain=drain))
    view = _view(output)
    servers = servers_of(pipeline, bootstrap_server, command_config)
    # For user functions that write to the cluster: `pipeline.servers()` reads this variable.
    os.environ["TIDELOG_BOOTSTRAP_SERVERS"] = servers
    if drain and not isinstance(pipeline.source, Topic):
        # Only topics have waiting rows; for other sources only Spark knows what is left.
        once, drain = True, False
    with _log_file(verbose) as log:
        try:
            code = _run(pipeline, servers, master, view, once=once, drain=drain, log=log)
        except Exception as error:
            view.ended("failed", _why(error, log))
            if verbose:
                raise
            raise typer.Exit(FAILED) from None
        if log is not None:
            log.unlink(missing_ok=True)
    raise typer.Exit(code)


def _why(error: Exception, log: Path | None) -> str:
    known = explain(error)
    sentence = str(error) if isinstance(error, PipelineError) else known or in_a_sentence(error)
    more = f" (Spark's log: {log}; --verbose shows all)" if log is not None and known is None else ""
    return f"tidelog: {sentence}{more}"


def _checked(
    file: str, checkpoint: str | None, conf: list[str], bootstrap_server: str | None, command_config: Path | None
) -> Pipeline:
    """The pipeline as the options change it, if it can run."""
    pipeline = open_pipeline(file)
    settings = {**pipeline.settings, **parse_assignments("--conf", conf)}
    pipeline = replace(pipeline, settings=settings, checkpoint=checkpoint or pipeline.checkpoint)
    refuse_mistakes(pipeline, check(pipeline))
    with cluster_of(pipeline, bootstrap_server, command_config) as cluster:
        refuse_mistakes(pipeline, check_cluster(pipeline, survey(pipeline, cluster, with_offsets=False)))
    return pipeline


def _checkpoint_problems(path: str, *, drain: bool) -> Iterator[Problem]:
    reason = why_unwritable(path)
    if reason is not None:
        yield Problem("checkpoint", f"{path} cannot be created: {reason}")
    if drain and not is_local(path):
        yield Problem("checkpoint", f"--drain needs a checkpoint on a local disk, not {path}")


def _view(output: Format) -> View:
    if output is Format.JSON:
        return JsonView()
    return LiveView() if sys.stderr.isatty() else LineView()


@contextmanager
def _log_file(verbose: bool) -> Iterator[Path | None]:
    """A file for Spark's stderr, so that it does not disturb the view; None with --verbose."""
    if verbose:
        yield None
        return
    handle, name = tempfile.mkstemp(prefix="tidelog-pipeline-", suffix=".log")
    os.close(handle)
    # Also messages of this process about failed or interrupted batches.
    logging.basicConfig(filename=name, level=logging.WARNING)
    yield Path(name)


@contextmanager
def _stderr_into(log: Path | None) -> Iterator[None]:
    """Processes started meanwhile, Java and its children, write their stderr into `log`."""
    if log is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _session(pipeline: Pipeline, master: str | None, log: Path | None) -> "SparkSession":
    try:
        from tidelog.spark.pipeline.running.run import has_local_checkpoints, session_settings
        from tidelog.spark.session import spark_session
    except ModuleNotFoundError as error:
        raise CommandError(f"a pipeline needs {error.name}: pip install 'tidelog[spark-local]'") from None
    quiet = {} if log is None else {"spark.log.level": "ERROR"}
    try:
        with _stderr_into(log):
            return spark_session(
                pipeline.name,
                master=master,
                settings={**quiet, **session_settings(pipeline, master)},
                local_checkpoints=has_local_checkpoints(pipeline),
            )
    except ModuleNotFoundError as error:
        raise CommandError(f"a pipeline needs {error.name}: pip install 'tidelog[spark-local]'") from None


def _run(
    pipeline: Pipeline, servers: str, master: str | None, view: View, *, once: bool, drain: bool, log: Path | None
) -> int:
    with _signals() as signals:
        view.starting(pipeline.name)
        spark = _session(pipeline, master, log)
        # PySpark has installed its own handler, which interrupts a running batch.
        signals.listen()
        try:
            from tidelog.spark.pipeline.running.run import start
            from tidelog.spark.source.progress import ProgressListener

            shown = _Shown(view)
            spark.streams.addListener(ProgressListener(shown.waiting.append))
            running = start(pipeline, spark, servers=servers, once=once)
            facts = {
                "master": str(spark.sparkContext.master),
                "cluster": servers,
                "checkpoint": pipeline.checkpoint_path,
            }
            view.started(pipeline.name, facts)
            is_over = drained(pipeline, servers, lambda: all(map(_finds_nothing, running.queries))) if drain else None
            was_asked = running.wait(signals.asked, shown.tick_until(is_over))
            shown.rest(running.queries)
            view.ended("stopped" if was_asked else "done", None)
        finally:
            spark.stop()
        return INTERRUPTED if signals.was_interrupted else 0


class _Signals:
    """Stop requests by SIGINT and SIGTERM. The second SIGINT stops at once."""

    def __init__(self) -> None:
        from threading import Event

        self.asked = Event()
        self.was_interrupted = False

    def listen(self) -> None:
        """Install the signal handlers."""
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._take)

    def _take(self, number: int, frame: object) -> None:
        del frame
        if number == signal.SIGINT:
            if self.was_interrupted:
                raise KeyboardInterrupt
            self.was_interrupted = True
        self.asked.set()


@contextmanager
def _signals() -> Iterator[_Signals]:
    signals = _Signals()
    kept = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    signals.listen()
    try:
        yield signals
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)


class _Shown:
    """The batches already shown. Spark reports batches in another thread, perhaps too late for the last one."""

    def __init__(self, view: View) -> None:
        self.waiting: deque[QueryProgress] = deque()
        self._view = view
        self._shown: set[tuple[str, int]] = set()

    def tick_until(self, is_over: Callable[[], bool] | None) -> Callable[[], bool]:
        """A function to call periodically: it shows new batches and returns whether to stop."""

        def tick() -> bool:
            while self.waiting:
                self._show(self.waiting.popleft())
            self._view.tick()
            return is_over is not None and is_over()

        return tick

    def rest(self, queries: "list[StreamingQuery]") -> None:
        """Show the batches that were not shown yet."""
        from tidelog.spark.source.progress import read_progress

        for query in queries:
            for progress in query.recentProgress:
                self._show(read_progress(json.loads(progress.json)))

    def _show(self, progress: "QueryProgress") -> None:
        batch = (progress.name, progress.batch_id)
        if batch not in self._shown:
            self._shown.add(batch)
            self._view.progress(progress)


def _finds_nothing(query: "StreamingQuery") -> bool:
    """Whether a query found no rows in its last trigger."""
    return not query.status["isTriggerActive"] and query.status["message"] == "Waiting for data to arrive"
