"""The console of `tidelog serve --console`: a process of its own beside the broker.

A page that takes a while to render then takes nothing from the broker's event loop. The console ends with the broker,
also when the broker is killed: its standard input is a pipe that only the broker holds open.
"""

import subprocess
import sys
from types import TracebackType
from typing import Self

STOP_SECONDS = 5.0


class ConsoleProcess:
    """The console, from `start` to the end of the block."""

    def __init__(self, listen: str, command_config: str | None) -> None:
        self._listen = listen
        self._command_config = command_config
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, address: str) -> None:
        """Start the console of the broker at `address`. It prints its own address on stdout when it is ready."""
        command = [sys.executable, "-m", "tidelog", "console", "--with-stdin", "--listen", self._listen]
        command += ["--bootstrap-server", address]
        if self._command_config is not None:
            command += ["--command-config", self._command_config]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None, "it was opened as a pipe"
        process.stdin.close()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
