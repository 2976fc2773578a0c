"""`tidelog pipeline run`."""

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from tidelog.cli._options import BootstrapServer, CommandConfig, Format, OutputFormat, parse_assignments
from tidelog.cli.errors import CommandError, explain
from tidelog.cli.pipeline._files import (
    INVALID,
    as_command_errors,
    cluster_of,
    open_pipeline,
    refuse_connect,
    refuse_mistakes,
)
from tidelog.cli.pipeline._spark_log import log_file, query_errors_into, stderr_into
from tidelog.cli.pipeline._views import JsonView, LineView, LiveView, View
from tidelog.cli.pipeline._watching import Watch
from tidelog.spark.pipeline.checks.cluster import check_cluster
from tidelog.spark.pipeline.checks.definition import Problem, check
from tidelog.spark.pipeline.checks.survey import survey
from tidelog.spark.pipeline.definition.connection import COMMAND_CONFIG_VARIABLE, Connection
from tidelog.spark.pipeline.definition.endpoints import Topic
from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError
from tidelog.spark.pipeline.failing.failures import in_a_sentence
from tidelog.spark.pipeline.running.checkpoints import has_no_batches, is_local, why_unwritable
from tidelog.spark.pipeline.running.plan import drained
from tidelog.spark.pipeline.running.restarts import RESTARTS_DEFAULT, UNLIMITED, RestartPolicy
from tidelog.spark.pipeline.running.supervision import PipelineStatus, State, Supervisor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidelog.spark.pipeline.running.gauges import PipelineMetrics
    from tidelog.spark.pipeline.running.reporting import Reporter
    from tidelog.spark.pipeline.running.run import Running
    from tidelog.spark.source.progress import QueryProgress

EXAMPLE: Final = "tidelog pipeline run orders.py --master 'local[4]'"

FAILED: Final = 1
INTERRUPTED: Final = 130


def _checked_url(url: str | None) -> str | None:
    if url is not None and urlsplit(url).scheme not in ("http", "https"):
        raise typer.BadParameter(f"{url!r} is not an http or https address")
    return url


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise typer.BadParameter(f"--metrics-listener {text!r} is not HOST:PORT, such as 127.0.0.1:9404")
    return host.strip("[]"), int(port)


PipelineFiles = Annotated[
    list[str],
    typer.Argument(
        help="Python files with pipelines; FILE:NAME where one has several.",
        metavar="FILE[:NAME]...",
        show_default=False,
    ),
]


def run(
    files: PipelineFiles,
    once: Annotated[
        bool, typer.Option("--once", help="Stop when all records that exist now, and are due, are processed.")
    ] = False,
    continuous: Annotated[bool, typer.Option("--continuous", help="Run until stopped; this is the default.")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Stop when nothing is left, including rows that wait for a retry.")
    ] = False,
    restarts: Annotated[
        int,
        typer.Option(
            help="Restarts of a failed pipeline without progress in between; -1 has no limit.",
            min=UNLIMITED,
            metavar="N",
        ),
    ] = RESTARTS_DEFAULT,
    master: Annotated[
        str | None, typer.Option(help="Spark's master.", metavar="URL", show_default="SPARK_MASTER, else all cores")
    ] = None,
    checkpoint: Annotated[str | None, typer.Option(help="Checkpoint directory.", show_default="the pipeline's")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="A setting of Spark; may be repeated.", metavar="NAME=VALUE")
    ] = None,
    metrics_listener: Annotated[
        str | None, typer.Option(help="Serve metrics at this address under /metrics.", metavar="HOST:PORT")
    ] = None,
    openlineage_url: Annotated[
        str | None, typer.Option(help="Send OpenLineage events to this address.", metavar="URL", callback=_checked_url)
    ] = None,
    ui: Annotated[bool, typer.Option("--ui/--no-ui", help="Serve Spark's web interface.")] = True,
    status: Annotated[
        bool, typer.Option("--status/--no-status", help="Write the status for `tidelog pipeline status`.")
    ] = True,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Start again when a file beside the pipelines changes; for your own machine."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's log and full error messages.")] = False,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Run pipelines and watch them.

    A pipeline that fails is restarted, after half a second, then one, two and so on up to a minute. SIGINT and SIGTERM
    stop all of them between two batches; an interrupted batch is repeated by the next run, and its rows are written
    once. Exit code 0: done, or stopped by SIGTERM; 1: a pipeline failed; 2: wrong options or mistakes in a definition;
    130: stopped by SIGINT.
    """
    refuse_connect()
    if once + continuous + drain > 1:
        raise typer.BadParameter("choose one of --once, --continuous and --drain")
    if checkpoint is not None and len(files) > 1:
        raise typer.BadParameter("--checkpoint is for one pipeline")
    if watch:
        raise typer.Exit(_watched(files))
    pipelines = _all_checked(files, partial(_checked, checkpoint, conf or [], bootstrap_server, command_config))
    _refuse_equal_names(pipelines)
    for pipeline in pipelines:
        problems = [*_checkpoint_problems(pipeline, drain=drain)]
        refuse_mistakes(pipeline, problems)
        for warning in problems:
            sys.stderr.write(f"warning: {pipeline.name}: {warning}\n")
    view = _view(output)
    with as_command_errors():
        connections = {each.name: each.connection(bootstrap_server) for each in pipelines}
    # For user functions that write to the cluster: `pipeline.connection()` reads these variables.
    os.environ["TIDELOG_BOOTSTRAP_SERVERS"] = connections[pipelines[0].name].servers
    if command_config is not None:
        os.environ[COMMAND_CONFIG_VARIABLE] = str(command_config.absolute())
    asked = _Asked(
        pipelines,
        connections,
        master,
        once=once,
        drain=drain,
        restarts=restarts,
        has_ui=ui,
        has_status=status,
        metrics=None if metrics_listener is None else _address(metrics_listener),
        openlineage_url=openlineage_url,
    )
    raise typer.Exit(_run_with_log(asked, view, verbose=verbose))


def _watched(files: Sequence[str]) -> int:
    """Run the same command without --watch, again with every change of its files."""
    tidelog = [sys.executable, "-m", "tidelog"]
    words = [word for word in sys.argv[1:] if word != "--watch"]

    def is_sound() -> bool:
        validate = [*tidelog, "pipeline", "validate", "--offline", "--no-plan"]
        codes = [subprocess.run([*validate, file], stdout=subprocess.DEVNULL, check=False).returncode for file in files]
        return not any(codes)

    return Watch([*tidelog, *words], files, is_sound).run()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the options ask for."""

    pipelines: Sequence[Pipeline]
    connections: Mapping[str, Connection]
    master: str | None
    once: bool = field(kw_only=True)
    drain: bool = field(kw_only=True)
    restarts: int = field(kw_only=True)
    has_ui: bool = field(kw_only=True)
    has_status: bool = field(kw_only=True)
    metrics: tuple[str, int] | None = field(kw_only=True)
    openlineage_url: str | None = field(kw_only=True)

    def is_once(self, pipeline: Pipeline) -> bool:
        """Only topics have waiting rows; for other sources only Spark knows what is left."""
        return self.once or (self.drain and not isinstance(pipeline.source, Topic))


def _run_with_log(asked: _Asked, view: View, *, verbose: bool) -> int:
    """The exit code. Spark's log stays only if the pipelines failed."""
    with log_file(verbose) as log:
        try:
            code = _run(asked, view, log)
        except Exception as error:
            view.ended("failed", _why(error, log))
            if verbose:
                raise
            return FAILED
        if log is not None:
            log.unlink(missing_ok=True)
    return code


def _refuse_equal_names(pipelines: Sequence[Pipeline]) -> None:
    names = [pipeline.name for pipeline in pipelines]
    for name in names:
        if names.count(name) > 1:
            raise typer.BadParameter(f"two pipelines have the name {name!r}: a name belongs to one checkpoint")


def _why(error: Exception, log: Path | None) -> str:
    known = explain(error)
    sentence = str(error) if isinstance(error, PipelineError) else known or in_a_sentence(error)
    more = f" (Spark's log: {log}; --verbose shows all)" if log is not None and known is None else ""
    return f"tidelog: {sentence}{more}"


def _all_checked(files: Sequence[str], check_file: Callable[[str], Pipeline]) -> list[Pipeline]:
    """The pipelines, if all of them can run; if not, the mistakes of every file are printed."""
    pipelines = []
    for file in files:
        with suppress(typer.Exit):
            pipelines.append(check_file(file))
    if len(pipelines) < len(files):
        raise typer.Exit(INVALID)
    return pipelines


def _checked(
    checkpoint: str | None, conf: list[str], bootstrap_server: str | None, command_config: Path | None, file: str
) -> Pipeline:
    """The pipeline as the options change it, if it can run."""
    pipeline = open_pipeline(file, command_config)
    settings = {**pipeline.settings, **parse_assignments("--conf", conf)}
    pipeline = replace(pipeline, settings=settings, checkpoint=checkpoint or pipeline.checkpoint)
    refuse_mistakes(pipeline, check(pipeline))
    with as_command_errors(), cluster_of(pipeline, bootstrap_server) as cluster:
        refuse_mistakes(pipeline, check_cluster(pipeline, survey(pipeline, cluster, with_offsets=False)))
    return pipeline


def _checkpoint_problems(pipeline: Pipeline, *, drain: bool) -> Iterator[Problem]:
    path = pipeline.checkpoint_path
    reason = why_unwritable(path)
    if reason is not None:
        yield Problem("checkpoint", f"{path} cannot be created: {reason}")
    if drain and not is_local(path):
        yield Problem("checkpoint", f"--drain needs a checkpoint on a local disk, not {path}")
    for each in pipeline.checkpoint_paths:
        if has_no_batches(each):
            message = (
                f"{each} has a query but no batch of it: either the query has ended before its first batch, or files "
                "were deleted. It begins with startingOffsets, and what the output has already is written again"
            )
            yield Problem("checkpoint", message, is_warning=True)


def _view(output: Format) -> View:
    if output is Format.JSON:
        return JsonView()
    return LiveView() if sys.stderr.isatty() else LineView()


def _session(asked: _Asked, log: Path | None) -> "SparkSession":
    try:
        from tidelog.spark.internals import end_java, is_java_gone
        from tidelog.spark.pipeline.running.run import has_local_checkpoints, session_settings
        from tidelog.spark.session import spark_session
    except ModuleNotFoundError as error:
        raise CommandError(f"a pipeline needs {error.name}: pip install 'tidelog[spark-local]'") from None
    query_errors_into(log)
    settings = {} if log is None else {"spark.log.level": "ERROR"}
    settings["spark.ui.enabled"] = str(asked.has_ui).lower()
    try:
        with stderr_into(log):
            if is_java_gone():
                end_java()
            return spark_session(
                ", ".join(pipeline.name for pipeline in asked.pipelines),
                master=asked.master,
                settings={**settings, **session_settings(asked.pipelines, asked.master)},
                local_checkpoints=has_local_checkpoints(asked.pipelines),
            )
    except ModuleNotFoundError as error:
        raise CommandError(f"a pipeline needs {error.name}: pip install 'tidelog[spark-local]'") from None


def _run(asked: _Asked, view: View, log: Path | None) -> int:
    with _signals() as signals:
        view.starting(", ".join(pipeline.name for pipeline in asked.pipelines))
        sessions = _Sessions(asked, log, signals)
        try:
            sessions.current()
        except Exception:
            if not signals.asked.is_set():
                raise
            # What asks this process to stop may end the JVM that it has just started.
            view.ended("stopped", None)
            return INTERRUPTED if signals.was_interrupted else 0
        with _reporter(asked) as reporter, _metrics(asked) as metrics:
            shown = _Shown(view, sessions.facts, asked.pipelines)
            supervisor = Supervisor(
                asked.pipelines,
                sessions.begin,
                RestartPolicy(asked.restarts),
                [shown, *reporter, *metrics],
                is_over=lambda pipeline: _is_over(asked, pipeline, sessions),
                progress=sessions.progress,
            )
            try:
                was_asked = supervisor.run(signals.asked, view.tick)
                view.ended("stopped" if was_asked else "done", None)
            finally:
                with suppress(Exception):  # its JVM may be gone
                    sessions.stop()
        return INTERRUPTED if signals.was_interrupted else 0


class _Sessions:
    """The Spark session of this process. If its JVM has died, the next start of a pipeline makes another."""

    def __init__(self, asked: _Asked, log: Path | None, signals: "_Signals") -> None:
        self._asked = asked
        self._log = log
        self._signals = signals
        self._spark: SparkSession | None = None
        self._running: dict[str, Running] = {}
        self.progress: deque[QueryProgress] = deque()

    def current(self) -> "SparkSession":
        """The session, started if need be."""
        from tidelog.spark.internals import is_java_gone
        from tidelog.spark.source.progress import ProgressListener

        if self._spark is None or is_java_gone():
            self._spark = _session(self._asked, self._log)
            # PySpark has installed its own handler, which interrupts a running batch.
            self._signals.listen()
            self._spark.streams.addListener(ProgressListener(self.progress.append))
        return self._spark

    def begin(self, pipeline: Pipeline) -> "Running":
        """Start a pipeline."""
        from tidelog.spark.pipeline.running.run import start

        servers = self._asked.connections[pipeline.name].servers
        running = start(pipeline, self.current(), servers=servers, once=self._asked.is_once(pipeline))
        self._running[pipeline.name] = running
        return running

    def finds_nothing(self, pipeline: Pipeline) -> bool:
        """Whether no query of a pipeline found rows in its last trigger."""
        return all(map(_finds_nothing, self._running[pipeline.name].queries))

    def facts(self, pipeline: Pipeline) -> dict[str, str]:
        """What is shown of a pipeline that has started."""
        context = self.current().sparkContext
        facts = {
            "master": str(context.master),
            "cluster": self._asked.connections[pipeline.name].servers,
            "checkpoint": pipeline.checkpoint_path,
        }
        return {**facts, "ui": str(context.uiWebUrl)} if context.uiWebUrl else facts

    def stop(self) -> None:
        """End the session."""
        if self._spark is not None:
            self._spark.stop()


def _is_over(asked: _Asked, pipeline: Pipeline, sessions: _Sessions) -> Callable[[], bool] | None:
    if not asked.drain or asked.is_once(pipeline):
        return None
    return drained(pipeline, asked.connections[pipeline.name].servers, lambda: sessions.finds_nothing(pipeline))


@contextmanager
def _metrics(asked: _Asked) -> "Iterator[list[PipelineMetrics]]":
    if asked.metrics is None:
        yield []
        return
    from tidelog.metrics import Registry
    from tidelog.metrics.endpoint import MetricsServer
    from tidelog.spark.pipeline.running.gauges import PipelineMetrics

    registry, (host, port) = Registry(), asked.metrics
    try:
        server = MetricsServer(registry, host, port)
    except OSError as error:
        raise CommandError(f"--metrics-listener {host}:{port}: {error}") from None
    with server:
        yield [PipelineMetrics(registry)]


@contextmanager
def _reporter(asked: _Asked) -> "Iterator[list[Reporter]]":
    from tidelog.spark.pipeline.running.lineage import LineageWriter
    from tidelog.spark.pipeline.running.reporting import Reporter, StatusReport
    from tidelog.spark.pipeline.running.status_topic import StatusWriter

    reports: list[StatusReport] = []
    if asked.has_status:
        reports.append(StatusWriter(asked.connections, {}))
    if asked.openlineage_url is not None:
        servers = {name: each.servers for name, each in asked.connections.items()}
        reports.append(LineageWriter(asked.openlineage_url, asked.pipelines, servers))
    if not reports:
        yield []
        return
    reporter = Reporter(reports)
    try:
        yield [reporter]
    finally:
        reporter.close()


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
    """Shows the pipelines of a supervisor in a view."""

    def __init__(self, view: View, facts: Callable[[Pipeline], dict[str, str]], pipelines: Sequence[Pipeline]) -> None:
        self._view = view
        self._facts = facts
        self._pipelines = {pipeline.name: pipeline for pipeline in pipelines}

    def changed(self, status: PipelineStatus) -> None:
        """Show starts and failures; the end of all is shown by the command."""
        if status.state is State.RUNNING:
            self._view.started(status.pipeline, self._facts(self._pipelines[status.pipeline]))
        elif status.state in (State.RESTARTING, State.FAILED):
            self._view.failed(status)

    def progressed(self, status: PipelineStatus, progress: "QueryProgress") -> None:
        """Show a micro-batch."""
        del status
        self._view.progress(progress)


def _finds_nothing(query: "StreamingQuery") -> bool:
    """Whether a query found no rows in its last trigger."""
    return not query.status["isTriggerActive"] and query.status["message"] == "Waiting for data to arrive"
