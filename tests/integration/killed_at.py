"""`python -m tests.integration.killed_at STEP PROGRAM [ARGUMENT…]`: runs a module or a file, which dies at a step.

STEP is `before:package.module.Class.method` or `after:…`, for the first call of the method that has something to do: a
call with an empty collection as an argument, or as its result, does not count. `#7` after it is for the seventh such
call. The process dies by SIGKILL; with `paused-` before the step it gets SIGSTOP and goes on after SIGCONT.
"""

import importlib
import inspect
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Sized
from functools import wraps
from pathlib import Path
from typing import Any

from tests.integration.cli_support import SOURCE


def start(step: str | None, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a module or a file, to be killed at a step, or as it is."""
    command = [sys.executable, *([] if step is None and program.endswith(".py") else ["-m"])]
    command += [program] if step is None else ["tests.integration.killed_at", step, program]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, str(Path(__file__).parents[2])])}
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)


def _counts(*values: object) -> bool:
    return not any(isinstance(each, Sized) and len(each) == 0 for each in values)


class _Step:
    def __init__(self, step: str) -> None:
        when, self._path = step.split(":")
        self._path, _, number = self._path.partition("#")
        self._signal = signal.SIGSTOP if when.startswith("paused-") else signal.SIGKILL
        self._is_before = when.endswith("before")
        self._left = int(number or 1)

    def _reach(self, *values: object) -> None:
        if _counts(*values):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), self._signal)

    def install(self) -> None:
        home, kind, name = self._path.rsplit(".", 2)
        owner = getattr(importlib.import_module(home), kind)
        method = getattr(owner, name)
        setattr(owner, name, (self._wrap_async if inspect.iscoroutinefunction(method) else self._wrap)(method))

    def _wrap(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*arguments: Any, **options: Any) -> Any:
            if self._is_before:
                self._reach(*arguments[1:])
            result = method(*arguments, **options)
            if not self._is_before:
                self._reach(*arguments[1:], result)
            return result

        return call

    def _wrap_async(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        async def call(*arguments: Any, **options: Any) -> Any:
            if self._is_before:
                self._reach(*arguments[1:])
            result = await method(*arguments, **options)
            if not self._is_before:
                self._reach(*arguments[1:], result)
            return result

        return call


def main() -> None:
    step, program, *arguments = sys.argv[1:]
    _Step(step).install()
    sys.argv = [program, *arguments]
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__")


if __name__ == "__main__":
    main()
