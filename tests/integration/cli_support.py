"""Running `tidelog` for the tests of its commands."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import tidelog

SOURCE = str(Path(tidelog.__file__).parents[1])


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Its output as one JSON document."""
        assert self.code == 0, self
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Its output as a JSON document per line."""
        assert self.code == 0, self
        return [json.loads(line) for line in self.out.splitlines()]


def run(*words: str, server: str | None = None, stdin: bytes = b"", timeout_s: float = 60.0) -> Ran:
    """Run `tidelog` with `words` as a process of its own; `server` goes into the environment."""
    environment = {**os.environ, "PYTHONPATH": SOURCE, "COLUMNS": "80"}
    environment.pop("TIDELOG_BOOTSTRAP_SERVERS", None)
    if server is not None:
        environment["TIDELOG_BOOTSTRAP_SERVERS"] = server
    done = subprocess.run(
        [sys.executable, "-m", "tidelog", *words], input=stdin, capture_output=True, env=environment, timeout=timeout_s
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
