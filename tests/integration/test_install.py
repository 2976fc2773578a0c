"""Wheels are built with the C modules where a compiler is, and without them where none is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = tuple(f"tidelog/{room}/_speedups." for room in ("client", "network", "records", "wire"))


def build_wheel(directory: Path, **environment: str) -> Path:
    """Build from a copy of the sources: a wheel must not depend on what lies around in the tree."""
    sources = directory / "sources"
    sources.mkdir()
    for name in ("src", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name)
        else:
            shutil.copy(ROOT / name, sources / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), "."]
    done = subprocess.run(
        command, cwd=sources, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode and "hatchling" in done.stderr:
        pytest.skip("pip cannot fetch hatchling here")
    assert done.returncode == 0, done.stderr
    (wheel,) = directory.glob("*.whl")
    return wheel


def libraries(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if name.startswith(MODULES) and not name.endswith((".c", ".pyi"))]


@pytest.mark.long
def test_without_a_compiler_the_wheel_is_pure_python(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, CC="/bin/false")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert libraries(wheel) == []


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_with_a_compiler_the_wheel_holds_the_modules_and_is_tagged_for_them(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path)
    assert f"cp{sys.version_info.major}{sys.version_info.minor}" in wheel.name
    assert len(libraries(wheel)) == len(MODULES)


@pytest.mark.long
def test_the_examples_are_in_the_wheel(tmp_path: Path) -> None:
    """`tidelog demo` runs from an installed wheel, and `python -m tidelog.examples` names files that are there."""
    with zipfile.ZipFile(build_wheel(tmp_path, TIDELOG_SPEEDUPS="off")) as archive:
        names = set(archive.namelist())
    assert {"tidelog/examples/enrich_orders.py", "tidelog/examples/demo/spark.py"} <= names


@pytest.mark.long
def test_the_modules_can_be_left_out(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path, TIDELOG_SPEEDUPS="off")
    assert wheel.name.endswith("-py3-none-any.whl")
