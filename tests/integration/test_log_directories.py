"""Log directories beside other processes, and on a disk that is full."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.storage._logs import ManagedLogs, values_of
from tidelog.storage.directories.log_directory import LOCK_FILE, DirectoryLockedError, LogDirectory


def test_a_full_disk_takes_the_directory_offline(tmp_path: Path) -> None:
    """A process whose files may not grow any further sees what one with a full disk sees."""
    script = """
import resource, signal, sys
from pathlib import Path
from tests.unit.storage._logs import CONFIG, ManagedLogs, fill
from tidelog.storage.errors import LogDirFailure

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
root = Path(sys.argv[1])
managed = ManagedLogs(root / "a")
manager = managed.start()
log = manager.get_or_create_log("topic", 0, None, CONFIG)
fill(log, 3)
end = log.log_end_offset
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
try:
    fill(log, 100)
except LogDirFailure as failure:
    assert failure.directory == str(root / "a"), failure.directory
    failed = manager.handle_log_dir_failure(failure.directory, failure.cause)
    assert failed.is_last and failed.partitions == (("topic", 0),)
    print("offline after", end, failure)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=30
    )
    assert "offline after 6" in done.stdout, done.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    manager = ManagedLogs(tmp_path / "a").start()
    log = manager.get_log("topic", 0)
    assert log is not None
    assert log.log_end_offset >= 6, "what had been written before is there"
    assert values_of(log)
    manager.close()


def test_two_processes_do_not_share_a_directory(tmp_path: Path) -> None:
    """And the error names the process that has it."""
    script = (
        "import sys\n"
        "from tidelog.storage.directories.log_directory import LogDirectory\n"
        "LogDirectory(sys.argv[1]).lock()\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"locked\n"
        directory = LogDirectory(str(tmp_path))
        with pytest.raises(DirectoryLockedError, match=f"process {other.pid}"):
            directory.lock()
        other.stdin.close()
        other.wait(10)
    directory.lock()  # a lock goes with its process, however it ends
    directory.unlock()
    assert (tmp_path / LOCK_FILE).exists()
