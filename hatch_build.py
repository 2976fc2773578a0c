"""Build hook: compiles `tidelog.records._speedups`, the optional C module, where a compiler and Python's headers are.

The module is never required. Where it cannot be compiled the wheel is built without it, is tagged as pure Python, and
the installation succeeds. `TIDELOG_SPEEDUPS=off` in the environment leaves it out on purpose.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULE = "tidelog.records._speedups"
SOURCE = Path("src/tidelog/records/_speedups.c")


class SpeedupsBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Called by hatchling for every wheel; editable ones get the module beside its source."""

    PLUGIN_NAME = "custom"
    _directory: str | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or os.environ.get("TIDELOG_SPEEDUPS") == "off":
            return
        self._directory = tempfile.mkdtemp(prefix="tidelog-speedups-")
        try:
            library = compile_module(Path(self.root), Path(self._directory))
        except (Exception, SystemExit) as error:
            self.app.display_warning(f"{MODULE} is left out, Tidelog runs without it: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version == "editable":
            shutil.copy2(library, Path(self.root) / SOURCE.parent / library.name)
        else:
            build_data["force_include"][str(library)] = "/".join((*MODULE.split(".")[:-1], library.name))

    def finalize(self, *_: Any) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def compile_module(root: Path, directory: Path) -> Path:
    """Compile the module into `directory` and return the shared library; raises whatever goes wrong."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    distribution = Distribution({"ext_modules": [Extension(MODULE, [str(root / SOURCE)])]})
    command = build_ext(distribution)
    command.build_lib = str(directory / "lib")
    command.build_temp = str(directory / "temp")
    command.ensure_finalized()
    command.run()
    return Path(command.get_ext_fullpath(MODULE))
