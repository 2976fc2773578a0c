"""Our broker as its users run it: one process, its defaults, an empty directory."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.processes import HOST, BrokerProcess

SOURCE = Path(__file__).resolve().parent.parent / "src"


def unavailable_reason() -> str | None:
    """Why Tidelog cannot be started from this tree, or None when it can."""
    if importlib.util.find_spec("tidelog.__main__") is None:
        return "tidelog has no `python -m tidelog` yet"
    return None


class TidelogBroker(BrokerProcess):
    """`python -m tidelog serve` on a free port."""

    name = "Tidelog"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory)
        self._settings = dict(settings or {})

    def command(self) -> list[str]:
        settings = {"listeners": f"PLAINTEXT://{HOST}:{self.port}", "log.dirs": str(self.log_dir), **self._settings}
        command = [sys.executable, "-m", "tidelog", "serve"]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        return command


def use_source_tree() -> None:
    """Let this process and the ones it starts import Tidelog from the tree when it is not installed.

    They may keep bytecode, as every installed package does: compiling the sources would take longer than the start.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if importlib.util.find_spec("tidelog") is None:
        sys.path.insert(0, str(SOURCE))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
