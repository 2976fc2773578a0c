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
    once: Annotated[bool, typer.Option("--once", help="Stop when what is there now, and due, is done.")] = False,
    continuous: Annotated[bool, typer.Option("--continuous", help="Run until stopped; this is the default.")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop when nothing is left, rows that wait to be tried again included.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(help="Spark's master.", metavar="URL", show_default="SPARK_MASTER, else all cores")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(help="Where to remember what was read.", show_default="the pipeline's")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's own log and the whole of errors.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Run a pipeline and watch it.

    Stops between two batches on SIGINT and SIGTERM; a batch that is cut off all the same is done again, and its rows
    are written once. Exit code 0: done, or stopped by SIGTERM; 1: the pipeline failed; 2: it is wrongly used or
    defined; 130: stopped by SIGINT.
    """
    if once + continuous + drain > 1:
        raise typer.BadParameter("choose one of --once, --continuous and --drain")
    pipeline = _checked(file, checkpoint, conf or [], bootstrap_server, command_config)
    refuse_mistakes(pipeline, _checkpoint_problems(pipeline.checkpoint_path, drain=drain))
    view = _view(output)
    servers = servers_of(pipeline, bootstrap_server, command_config)
    # For functions of the pipeline's own that write to the cluster: `pipeline.servers()` tells them where it is.
    os.environ["TIDELOG_BOOTSTRAP_SERVERS"] = servers
    if drain and not isinstance(pipeline.source, Topic):
        # Only topics have rows that wait; of anything else, Spark alone knows what is left.
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
        yield Problem("checkpoint", f"{path} cannot be made: {reason}")
    if drain and not is_local(path):
        yield Problem("checkpoint", f"--drain needs one on this machine, not {path}")


def _view(output: Format) -> View:
    if output is Format.JSON:
        return JsonView()
    return LiveView() if sys.stderr.isatty() else LineView()


@contextmanager
def _log_file(verbose: bool) -> Iterator[Path | None]:
    """A file for what Spark says on stderr, so that the view is not torn apart; None when it may be."""
    if verbose:
        yield None
        return
    handle, name = tempfile.mkstemp(prefix="tidelog-pipeline-", suffix=".log")
    os.close(handle)
    # Also what this process would say of a batch that failed or was cut off.
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
        # PySpark has put a handler of its own in place, which cuts off what runs.
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
    """What SIGINT and SIGTERM ask for. The second SIGINT is not patient."""

    def __init__(self) -> None:
        from threading import Event

        self.asked = Event()
        self.was_interrupted = False

    def listen(self) -> None:
        """Be the one who is told."""
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
    """What the view has been told. Spark tells of batches in a thread of its own, perhaps too late for the last."""

    def __init__(self, view: View) -> None:
        self.waiting: deque[QueryProgress] = deque()
        self._view = view
        self._told: set[tuple[str, int]] = set()

    def tick_until(self, is_over: Callable[[], bool] | None) -> Callable[[], bool]:
        """A function to be called now and then: it shows what is new, and tells whether to stop."""

        def tick() -> bool:
            while self.waiting:
                self._tell(self.waiting.popleft())
            self._view.tick()
            return is_over is not None and is_over()

        return tick

    def rest(self, queries: "list[StreamingQuery]") -> None:
        """What has not been told yet."""
        from tidelog.spark.source.progress import read_progress

        for query in queries:
            for progress in query.recentProgress:
                self._tell(read_progress(json.loads(progress.json)))

    def _tell(self, progress: "QueryProgress") -> None:
        batch = (progress.name, progress.batch_id)
        if batch not in self._told:
            self._told.add(batch)
            self._view.progress(progress)


def _finds_nothing(query: "StreamingQuery") -> bool:
    """Whether a query has looked for rows, and there were none."""
    return not query.status["isTriggerActive"] and query.status["message"] == "Waiting for data to arrive"
