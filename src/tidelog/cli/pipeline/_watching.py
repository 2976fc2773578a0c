"""`tidelog pipeline run --watch`: a command that is started again when the files beside its pipelines change.

The command is a process of its own, which ends as it does for SIGTERM: between two batches. A Spark session cannot take
back a module that its workers have imported, so a change takes a new one. Before the old process is stopped, `check` is
run on what was changed; while it fails, what runs goes on.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Final

from tidelog.spark.pipeline.definition.loading import split_spec

LOOK_EVERY_S: Final = 0.5
_SUFFIXES: Final = frozenset({".py", ".avsc", ".proto", ".desc"})
_FILES_MAX: Final = 5_000
_INTERRUPTED: Final = 130

Snapshot = dict[Path, tuple[int, int]]
"""The time and the size of each file."""


def snapshot(files: Sequence[str]) -> Snapshot:
    """The files that pipelines may consist of: modules and schemas in their directories and packages below."""
    found: Snapshot = {}
    for directory in sorted({split_spec(file)[0].resolve().parent for file in files}):
        for path in _sources(directory):
            try:
                there = path.stat()
            except OSError:
                continue
            found[path] = (there.st_mtime_ns, there.st_size)
            if len(found) == _FILES_MAX:
                return found
    return found


def _sources(directory: Path) -> Iterator[Path]:
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    for path in entries:
        if path.name.startswith((".", "__pycache__")):
            continue
        # Only packages: a checkpoint or a virtual environment may be beside the file, too.
        if path.is_dir() and not path.is_symlink() and (path / "__init__.py").is_file():
            yield from _sources(path)
        elif path.suffix in _SUFFIXES:
            yield path


@dataclass(slots=True)
class Watch:
    """`command`, run again and again. `check` returns whether what is on the disk now may run."""

    command: Sequence[str]
    files: Sequence[str]
    check: Callable[[], bool]
    say: Callable[[str], object] = lambda line: sys.stderr.write(line + "\n")
    _stopped: Event = field(default_factory=Event)
    _was_interrupted: bool = False
    _process: "subprocess.Popen[bytes] | None" = None

    def run(self) -> int:
        """Until a signal asks to stop. Returns the exit code."""
        with self._signals():
            seen = snapshot(self.files)
            self._start()
            while not self._stopped.is_set():
                self._note_end()
                now = snapshot(self.files)
                if now == seen:
                    time.sleep(LOOK_EVERY_S)
                    continue
                changed = ", ".join(sorted({path.name for path, _ in now.items() ^ seen.items()}))
                seen = now
                self._change(changed)
            return self._end()

    def _change(self, changed: str) -> None:
        if not self.check():
            self.say(f"{changed}: not taken, see above; waiting for the next change")
            return
        self.say(f"{changed}: changed, starting again")
        self._stop()
        if not self._stopped.is_set():
            self._start()

    def _start(self) -> None:
        # In a session of its own: ^C on a terminal reaches this process alone, which stops the other once.
        self._process = subprocess.Popen(self.command, start_new_session=True)

    def _note_end(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            self.say(f"ended with exit code {self._process.returncode}; waiting for a change")
            self._process = None

    def _stop(self) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.terminate()
        code = self._process.wait()
        self._process = None
        return code

    def _end(self) -> int:
        code = self._stop()
        return _INTERRUPTED if self._was_interrupted else max(0, code)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def interrupted(_number: int, _frame: object) -> None:
            if self._was_interrupted and self._process is not None:
                self._process.kill()
            self._was_interrupted = True
            self._stopped.set()

        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        signal.signal(signal.SIGINT, interrupted)
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._stopped.set())
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
