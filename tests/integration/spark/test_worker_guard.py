"""A row that kills or hangs its process is found and fails alone, whichever kind of function has it."""

import faulthandler
import os
import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.spark.pipeline.definition.steps import DROP
from tidelog.spark.pipeline.failing.row_functions import run_batches, run_rows
from tidelog.spark.pipeline.failing.worker_guard import Guard, Note

ERROR = pa.struct({"type": pa.string(), "message": pa.string(), "retry": pa.bool_()})
FIELDS = pa.schema({"half": pa.float64()})
OUT = pa.schema({"number": pa.int64(), "half": pa.float64(), "_error": ERROR})


def _crash() -> None:
    """As a defect in a C module does. The dump that pytest would print of it is of no use to anybody."""
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGSEGV)


def _hang() -> None:
    """As a function that holds Python's lock does: no other thread of Python runs."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    while True:
        pass


DEATHS: dict[str, tuple[Callable[[], None], str]] = {
    "crash": (_crash, "was killed by SIGSEGV"),
    "kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by SIGKILL"),
    "exit": (lambda: os._exit(7), "ended with exit code 7"),
    "hang": (_hang, "was not done within 1s (row_timeout)"),
}


def _half(deadly: set[int], die: Callable[[], None], row: dict[str, Any]) -> Any:
    if row["number"] in deadly:
        die()
    if row["number"] % 5 == 4:
        return DROP
    if row["number"] % 5 == 3:
        raise ValueError("three")
    return {"half": row["number"] / 2}


def _halves(deadly: set[int], die: Callable[[], None], batch: pa.RecordBatch) -> pa.RecordBatch:
    for number in batch.column("number").to_pylist():
        if number in deadly:
            die()
    return pa.RecordBatch.from_pydict({"half": [number / 2 for number in batch.column("number").to_pylist()]})


def _run(run: Any, function: Any, guard: Guard, *batches: list[int]) -> list[dict[str, Any]]:
    def work(batch: pa.RecordBatch, function: Any, note: Note) -> pa.RecordBatch:
        result: pa.RecordBatch = run(batch, function, None, FIELDS, OUT, note=note)
        return result

    given = (pa.RecordBatch.from_pydict({"number": pa.array(each, pa.int64())}) for each in batches)
    return [row for batch in guard.run(given, function, work) for row in batch.to_pylist()]


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize(("run", "function"), [(run_rows, _half), (run_batches, _halves)], ids=["rows", "batches"])
def test_a_row_that_ends_its_process_fails_alone(run: Any, function: Any, death: str) -> None:
    die, message = DEATHS[death]
    guard = Guard(1.0 if death == "hang" else None, is_apart=True)
    rows = _run(run, partial(function, {6}, die), guard, [0, 1, 2], [5, 6, 7, 10])
    assert [row["number"] for row in rows] == [0, 1, 2, 5, 6, 7, 10]
    (failed,) = [row for row in rows if row["_error"] is not None]
    assert failed["number"] == 6
    assert failed["_error"]["type"] == "WorkerDied"
    assert message in failed["_error"]["message"]
    assert failed["_error"]["retry"] is False
    assert [row["half"] for row in rows if row["number"] != 6] == [0, 0.5, 1, 2.5, 3.5, 5]


@given(st.lists(st.integers(0, 60), max_size=30), st.sets(st.integers(0, 60), max_size=4), st.booleans())
@settings(max_examples=15, deadline=None)
def test_the_others_are_as_they_are_without_a_guard(numbers: list[int], deadly: set[int], by_row: bool) -> None:
    run, function = (run_rows, _half) if by_row else (run_batches, _halves)
    apart = _run(run, partial(function, deadly, DEATHS["exit"][0]), Guard(is_apart=True), numbers)
    plain = _run(run, partial(function, set(), DEATHS["exit"][0]), Guard(), numbers)
    survivors = [row for row in apart if row["_error"] is None or row["_error"]["type"] != "WorkerDied"]
    assert survivors == [row for row in plain if row["number"] not in deadly]
    assert [row["number"] for row in apart if row not in survivors] == [each for each in numbers if each in deadly]


def test_a_process_that_is_killed_from_outside_costs_no_row(tmp_path: Any) -> None:
    """Such as by a kernel that is short of memory: what died once alone is tried again."""
    mark = tmp_path / "died"

    def once(row: dict[str, Any]) -> Any:
        if row["number"] == 1 and len(list(tmp_path.iterdir())) < 2:
            mark.with_name(f"died-{os.getpid()}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"half": 0.5}

    rows = _run(run_rows, once, Guard(is_apart=True), [0, 1, 2])
    assert [row["_error"] for row in rows] == [None, None, None]


def test_an_error_that_is_no_rows_fails_the_batch() -> None:
    class Unavailable(Exception):
        pass

    def ask(row: dict[str, Any]) -> Any:
        raise Unavailable("no answer")

    with pytest.raises(RuntimeError, match="Unavailable: no answer"):
        _run(partial(run_rows, fatal=(Unavailable,)), ask, Guard(is_apart=True), [1])


def test_no_process_is_left() -> None:
    def pid(row: dict[str, Any]) -> Any:
        return {"half": float(os.getpid())}

    (row,) = _run(run_rows, pid, Guard(is_apart=True), [1])
    assert row["half"] != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(int(row["half"]), 0)


def test_a_worker_that_hangs_is_ended_by_its_watchdog() -> None:
    child = os.fork()
    if child == 0:
        try:
            os.close(2)
            _run(run_rows, lambda row: _hang(), Guard(0.2), [1])
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
