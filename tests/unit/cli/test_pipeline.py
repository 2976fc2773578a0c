"""`tidelog pipeline` where it needs neither a cluster nor Spark."""

import json
import signal
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from tidelog.cli.app import main
from tidelog.cli.pipeline import run
from tidelog.cli.pipeline._spark_log import query_errors_into
from tidelog.cli.pipeline._views import LiveView, cells_of, line_of

SOUND = """
from tidelog.spark.pipeline import Pipeline, RetryLadder, pack_json, parse_json, topic
pipeline = Pipeline(
    "clean", source=topic("orders"), steps=[parse_json("id long"), pack_json(key="id")], sink=topic("clean"),
    on_failure=RetryLadder(delays=["10s"]), description="orders, cleaned",
)
"""


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    path = tmp_path / "sound.py"
    path.write_text(SOUND)
    return path


def test_a_sound_file_is_valid(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "validate", str(sound), "--offline", "--no-plan"]) == 0
    assert capsys.readouterr().out == "clean: valid\n"


def test_mistakes_end_with_code_2_and_are_printed_one_a_line(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound.write_text(SOUND.replace('"10s"', '"soon"').replace('topic("clean")', 'topic("orders")'))
    for verb in (["validate", "--offline", "--no-plan"], ["run"]):
        assert main(["pipeline", verb[0], str(sound), *verb[1:]]) == 2
        printed = capsys.readouterr().err.splitlines()
        assert len(printed) == 2
        assert "sink: topic 'orders' is also the source" in printed[0]
        assert "on_failure.delays[1]: 'soon' is not a duration" in printed[1]


def test_the_mistakes_of_all_files_are_printed_before_anything_runs(
    sound: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound.write_text(SOUND.replace('"10s"', '"soon"'))
    other = tmp_path / "other.py"
    other.write_text(SOUND.replace('"10s"', '"later"').replace('"clean", source', '"other", source'))
    assert main(["pipeline", "run", str(sound), str(other)]) == 2
    printed = capsys.readouterr().err
    assert "clean: on_failure.delays[1]: 'soon'" in printed
    assert "other: on_failure.delays[1]: 'later'" in printed


def test_mistakes_as_json(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound.write_text("x = 1\n")
    assert main(["pipeline", "validate", str(sound), "--format", "json"]) == 2
    printed = json.loads(capsys.readouterr().out)
    assert printed["valid"] is False
    assert printed["problems"][0]["setting"] == "file"


def test_pipelines_of_a_directory_are_listed_and_broken_files_reported(
    sound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (sound.parent / "broken.py").write_text("Pipeline(\n")
    (sound.parent / "other.py").write_text("raise SystemExit\n")
    assert main(["pipeline", "list", str(sound.parent), "--format", "json"]) == 0
    shown = capsys.readouterr()
    (listed,) = json.loads(shown.out)
    assert (listed["name"], listed["description"]) == ("clean", "orders, cleaned")
    assert "broken.py, line 1" in shown.err
    assert "other.py" not in shown.err


def test_a_pipeline_is_described(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "describe", str(sound)]) == 0
    shown = capsys.readouterr().out
    assert "on failure    2 attempts, after 10s, then orders.dlq" in shown
    assert "orders.retry.1: failed rows wait 10s" in shown


@pytest.mark.parametrize(
    "words",
    [["replay"], ["replay", "a.py", "--topic", "b"], ["replay", "--topic", "b", "--filter", "colour=red"]],
)
def test_a_replay_that_is_not_clear_is_refused(words: list[str]) -> None:
    assert main(["pipeline", *words]) == 2


def test_only_one_way_to_end_may_be_chosen(sound: Path) -> None:
    assert main(["pipeline", "run", str(sound), "--once", "--drain"]) == 2


def test_errors_that_pyspark_logs_itself_are_in_the_log_and_not_on_the_screen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "spark.log"
    query_errors_into(log)
    context: Any = _Context()
    AnalysisException("no such column", contexts=[context])._log_exception()
    assert capfd.readouterr().err == ""
    assert "no such column" in log.read_text()


class _Context:
    """As the JVM describes where in a program a failed expression is."""

    def contextType(self) -> SimpleNamespace:
        return SimpleNamespace(name="DataFrame")

    def callSite(self) -> str:
        return "orders.py:7"

    def fragment(self) -> str:
        return "cast"


def test_signals_reach_the_command_although_spark_takes_them_when_it_starts() -> None:
    """PySpark's own handler cuts off the batch that runs, and the view with it."""
    before = signal.getsignal(signal.SIGINT)
    with run._signals() as signals:
        signal.signal(signal.SIGINT, lambda number, frame: pytest.fail("Spark's handler was called"))
        signals.listen()
        signal.raise_signal(signal.SIGINT)
        assert signals.asked.is_set()
        assert signals.was_interrupted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("columns", "is_table"), [(100, True), (40, False)])
def test_a_live_view_fits_its_terminal(columns: int, is_table: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    progress_module = pytest.importorskip("tidelog.spark.source.progress")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    view = LiveView()
    view.starting("clean")
    view.started("clean", {"master": "local[2]"})
    view.progress(progress_module.QueryProgress("clean", 3, 1000, 500.0, 2000.4, 12, 250, 0, 0, 0))
    view.tick()
    view.ended("done", None)
    assert ("PROCESSED/S" in shown.getvalue(), " processed/s" in shown.getvalue()) == (is_table, not is_table)
    assert "done: 1,000 rows" in shown.getvalue().splitlines()[-1]


def test_a_batch_is_a_line_and_a_row_of_the_table() -> None:
    progress_module = pytest.importorskip("tidelog.spark.source.progress")
    progress = progress_module.QueryProgress("clean", 3, 1000, 500.0, 2000.4, 12, 250, 7, 4_000_000, 0)
    assert line_of(progress) == (
        "batch 3: 1,000 rows in 250 ms, 500 in/s, 2,000 processed/s, lag 12, state 7 rows, 4.0 MB"
    )
    assert cells_of(progress, 5000) == [3, 5000, 500, 2000, 12, 250, "7 rows, 4.0 MB"]


@pytest.mark.parametrize("verb", ["run", "backfill"])
def test_commands_that_need_a_driver_of_their_own_refuse_spark_connect(
    verb: str, sound: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:15002")
    assert main(["pipeline", verb, str(sound)]) != 0
    assert "SPARK_REMOTE names a server of Spark Connect: unset it" in " ".join(capsys.readouterr().err.split())
