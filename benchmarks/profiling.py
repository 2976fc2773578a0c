"""py-spy beside our broker while a case runs: where does the time go?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FORMATS = {".json": "speedscope", ".svg": "flamegraph"}
SAMPLES_PER_SECOND = 500


@contextmanager
def watched(pid: int, seconds: float, output: Path) -> Iterator[None]:
    """Sample the process for `seconds` while the block runs. The suffix of `output` chooses the format.

    Time inside C and the kernel is put down to the Python line that called.
    """
    command = [_py_spy(), "record", "--pid", str(pid), "--duration", str(max(1, round(seconds)))]
    options = ["--rate", str(SAMPLES_PER_SECOND), "--format", FORMATS.get(output.suffix, "raw")]
    with subprocess.Popen(
        [*command, *options, "--output", str(output)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as watcher:
        yield
        _, words = watcher.communicate()
    if watcher.returncode:
        raise RuntimeError(f"py-spy: {words.decode(errors='replace').strip()}")


def _py_spy() -> str:
    """The one beside this Python, before any other."""
    beside = os.path.dirname(sys.executable)
    found = shutil.which("py-spy", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))
    if found is None:
        raise RuntimeError("py-spy is not installed; `pip install tidelog[bench]` brings it")
    return found
