"""Running `tidelog` for the tests of its commands, as a process or in this one."""

import io
import json
import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import tidelog
from tidelog.__main__ import main

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


def run_here(*words: str, server: str | None = None, stdin: bytes = b"") -> Ran:
    """What `run` does, without a process: most of a short command's time is the start of its interpreter."""
    environment = {"COLUMNS": "80", "TIDELOG_BOOTSTRAP_SERVERS": server or ""}
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with tempfile.TemporaryFile("w+") as file:
        file.buffer.write(stdin)
        file.seek(0)
        with (
            mock.patch.dict(os.environ, environment),
            mock.patch.object(sys, "stdin", file),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            if server is None:
                del os.environ["TIDELOG_BOOTSTRAP_SERVERS"]
            code = main(words)
    return Ran(code, _text(out), _text(err))


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()
