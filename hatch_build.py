"""Build hook: compiles the optional C modules `_speedups`, where a compiler and Python's headers are.

They are never required. Where one cannot be compiled the wheel is built without them, is tagged as pure Python, and the
installation succeeds. `TIDELOG_SPEEDUPS=off` in the environment leaves them out on purpose.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES = tuple(f"tidelog.{room}._speedups" for room in ("client", "network", "records", "wire"))
SOURCES = Path("src")


class SpeedupsBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Called by hatchling for every wheel; editable ones get the modules beside their sources."""

    PLUGIN_NAME = "custom"
    _directory: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("TIDELOG_SPEEDUPS") == "off":
            return
        self._directory = tempfile.mkdtemp(prefix="tidelog-speedups-")
        try:
            libraries = [compile_module(name, Path(self.root), Path(self._directory)) for name in MODULES]
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a compiler may fail in any way; the module is optional
            self.app.display_warning(f"{', '.join(MODULES)} are left out, Tidelog runs without them: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for name, library in zip(MODULES, libraries, strict=True):
            package = name.split(".")[:-1]
            if version == "editable":
                _replace(library, Path(self.root, SOURCES, *package, library.name))
            else:
                build_data["force_include"][str(library)] = "/".join((*package, library.name))

    def finalize(self, *_: Any) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def _replace(library: Path, place: Path) -> None:
    """Put a library in its place by a rename: overwriting it would crash the processes that use it."""
    beside = place.with_name(f".{place.name}.new")
    shutil.copy2(library, beside)
    os.replace(beside, place)


def compile_module(name: str, root: Path, directory: Path) -> Path:
    """Compile a module into `directory` and return the shared library; raises whatever goes wrong."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    source = Path(root, SOURCES, *name.split(".")).with_suffix(".c")
    distribution = Distribution({"ext_modules": [Extension(name, [str(source)])]})
    command = build_ext(distribution)
    command.build_lib = str(directory / "lib")
    command.build_temp = str(directory / "temp")
    command.ensure_finalized()
    command.run()
    return Path(command.get_ext_fullpath(name))
