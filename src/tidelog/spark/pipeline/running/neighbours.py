"""The modules beside a pipeline's file, sent to the executors before the first query starts.

The functions of the file itself travel whole. What they import from files beside it is found on the driver, where that
directory is on the path, and nowhere else; so these files are given to Spark, as `--py-files` would. What is installed
is expected to be installed everywhere.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from tidelog.spark.internals import context_of
from tidelog.spark.pipeline.definition.loading import MODULE_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SENT: Final[set[tuple[str, Path]]] = set()
"""The files already sent to each Spark application, which accepts a file once."""


def send_neighbours(spark: "SparkSession") -> None:
    """Make the modules that the pipeline's file can import available to executors."""
    context = context_of(spark)
    application = str(id(spark) if context is None else context.applicationId)
    for place in pipeline_neighbours():
        if (application, place) not in _SENT:
            _SENT.add((application, place))
            file = str(place if place.is_file() else _zipped(place))
            if context is None:
                spark.addArtifacts(file, pyfile=True)
            else:
                context.addPyFile(file)


def pipeline_neighbours() -> list[Path]:
    """The files and packages beside the pipelines that are loaded, as far as they are imported."""
    return neighbours(sys.modules, _homes(sys.modules))


def neighbours(modules: Mapping[str, ModuleType], homes: Iterable[Path]) -> list[Path]:
    """The files and packages in `homes` that are imported by a name of their own."""
    allowed = set(homes)
    found: set[Path] = set()
    for name, module in list(modules.items()):
        place = _place(module)
        is_own = name == "__main__" or name.startswith(MODULE_PREFIX) or "." in name
        if place is not None and not is_own and place.parent in allowed:
            found.add(place)
    return sorted(found)


def _homes(modules: Mapping[str, ModuleType]) -> list[Path]:
    """The directories of pipelines' files, and of the program if it is one itself."""
    names = [name for name in list(modules) if name.startswith(MODULE_PREFIX) or name == "__main__"]
    places = [_place(modules[name]) for name in names]
    return [place.parent for place in places if place is not None]


def _place(module: ModuleType) -> Path | None:
    """A module's file, or the directory of a package."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        path = Path(file).resolve()
        return path.parent if path.stem == "__init__" else path
    directories = list(getattr(module, "__path__", ()))
    return Path(directories[0]).resolve() if len(directories) == 1 else None


def _zipped(package: Path) -> Path:
    """The package in an archive, as Spark takes it. Spark copies it, and removes its copies when it stops."""
    directory = Path(tempfile.mkdtemp(prefix="tidelog-package-"))
    return Path(shutil.make_archive(str(directory / package.name), "zip", package.parent, package.name))
