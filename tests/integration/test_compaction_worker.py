"""The cleaner's worker as a process: jobs in, events out, and no life of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_support import SOURCE
from tests.unit.storage.cleaner.support import NOW_MS, append, files_in, make_log, plan
from tidelog.storage.cleaner.jobs import (
    CleanJob,
    Event,
    GroupCleaned,
    JobDone,
    JobFailed,
    Progress,
    decode_event,
    encode_job,
)
from tidelog.storage.log import Log

COMMAND = [sys.executable, "-P", "-m", "tidelog.storage.cleaner.worker"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}
DEADLINE_S = 30.0


class Worker:
    """A worker process to talk to."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout

    def send(self, job: CleanJob) -> None:
        self.input.write(encode_job(job))
        self.input.flush()

    def events(self) -> Iterator[Event]:
        for line in self.output:
            event = decode_event(line)
            yield event
            if isinstance(event, JobDone | JobFailed):
                return

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.input.close()
        self.output.close()


@pytest.fixture
def worker() -> Iterator[Worker]:
    started = Worker(COMMAND)
    yield started
    started.close()


def _dirty_log(tmp_path: Path, batches: int = 10, size: int = 10) -> Log:
    log = make_log(tmp_path)
    for number in range(batches):
        append(log, (b"%d" % (number % 3), bytes([number % 256]) * size))
    log.roll(NOW_MS)
    return log


def _is_gone(pid: int) -> bool:
    """Whether a process has ended, even if its parent has not waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def _wait_until(condition: object, what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_a_worker_does_one_job_after_the_other_and_ends_with_its_input(tmp_path: Path, worker: Worker) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        log = _dirty_log(tmp_path / name)
        worker.send(plan(log))
        group, done = worker.events()
        assert isinstance(group, GroupCleaned)
        assert isinstance(done, JobDone)
        assert (done.records_kept, done.engine) == (3, "plain")
        path = os.path.join(log.directory, files_in(log, ".log.cleaned")[0])
        assert (os.stat(path).st_ino, os.stat(path).st_size) == (group.inode, group.size_bytes)
    worker.input.close()
    assert worker.process.wait(DEADLINE_S) == 0


@pytest.mark.long
def test_a_large_job_is_done_by_kernels(tmp_path: Path, worker: Worker) -> None:
    pytest.importorskip("numba")
    log = _dirty_log(tmp_path, batches=300, size=20_000)
    worker.send(plan(log))
    *_, done = worker.events()
    assert isinstance(done, JobDone)
    assert (done.records_kept, done.engine) == (3, "compiled")


def test_without_a_numeric_stack_the_same_is_done_in_plain_python(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules.update(numpy=None, numba=None); from tidelog.storage.cleaner.worker import main"
    worker = Worker([sys.executable, "-P", "-c", f"{hidden}; sys.exit(main())"])
    try:
        log = _dirty_log(tmp_path, batches=300, size=20_000)
        worker.send(plan(log))
        *_, done = worker.events()
        assert isinstance(done, JobDone)
        assert (done.records_kept, done.engine) == (3, "plain")
    finally:
        worker.close()


def test_what_cannot_be_done_is_said_and_the_next_job_is_done(tmp_path: Path, worker: Worker) -> None:
    log = _dirty_log(tmp_path)
    job = plan(log)
    worker.send(job._replace(directory=str(tmp_path / "nowhere")))
    (failed,) = worker.events()
    assert isinstance(failed, JobFailed)
    assert (failed.kind, failed.error_number) == ("io", 2)
    worker.send(job._replace(first_dirty_offset="x"))  # type: ignore[arg-type]
    (failed,) = worker.events()
    assert isinstance(failed, JobFailed)
    assert failed.kind == "bug"
    worker.send(job)
    assert isinstance([*worker.events()][-1], JobDone)


def test_the_rate_is_kept_and_progress_is_reported_meanwhile(tmp_path: Path, worker: Worker) -> None:
    log = _dirty_log(tmp_path, batches=100, size=10_000)
    total = log.size_bytes
    worker.send(plan(log)._replace(bytes_per_second_max=2.0 * total, buffer_bytes=8192))
    started = time.monotonic()
    events = list(worker.events())
    assert time.monotonic() - started > 0.7, "two passes of the log at twice the log a second"
    progress = [event for event in events if isinstance(event, Progress)]
    assert len(progress) >= 2
    assert [event.bytes_done for event in progress] == sorted(event.bytes_done for event in progress)
    assert {event.bytes_total for event in progress} == {2 * total}


def test_an_orphan_ends_by_itself(tmp_path: Path) -> None:
    """A broker that was killed cannot stop its workers; they notice, even while they are held back."""
    log = _dirty_log(tmp_path, batches=100, size=10_000)
    job = plan(log)._replace(bytes_per_second_max=100_000.0, buffer_bytes=8192)
    parent_code = (
        "import subprocess, sys\n"
        f"worker = subprocess.Popen({COMMAND!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"worker.stdin.write({encode_job(job)!r}); worker.stdin.flush()\n"
        "worker.stdout.readline()\n"
        "print(worker.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", parent_code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert not _is_gone(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdin.close()
    parent.stdout.close()
    _wait_until(lambda: _is_gone(pid), "the orphan is still there")
