"""Finding the pipelines that a Python file defines. No Spark is started; the file itself may import it.

A file is run once, as a module of its own name, so that its `if __name__ == "__main__"` does not run. Its directory
comes first on the path from then on, as it does for a script: steps may import their neighbours.
"""

import sys
import traceback
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from tidelog.spark.pipeline.definition.pipeline import Pipeline, PipelineError

MODULE_PREFIX = "tidelog_pipeline_"


def load_pipeline(spec: str) -> Pipeline:
    """The pipeline that `FILE` or `FILE:name` names. Raises PipelineError."""
    path, name = split_spec(spec)
    found = choose_pipelines(spec)
    if name is None and len(found) > 1:
        raise PipelineError(f"{path} has several pipelines: choose one, for example {path}:{next(iter(found))}")
    return next(iter(found.values()))


def choose_pipelines(spec: str) -> dict[str, Pipeline]:
    """The pipelines of `FILE`, or those that `FILE:name` names, by their variable; at least one."""
    path, name = split_spec(spec)
    found = load_pipelines(path)
    chosen = {variable: each for variable, each in found.items() if name in (None, variable, each.name)}
    if not chosen:
        raise PipelineError(f"{path} has no pipeline {name!r}; it has {', '.join(found)}")
    return chosen


def split_spec(spec: str) -> tuple[Path, str | None]:
    """The file and, after a colon, the pipeline's name or variable."""
    text, colon, name = spec.rpartition(":")
    if colon and text.endswith(".py"):
        return Path(text), name
    return Path(spec), None


def load_pipelines(path: Path) -> dict[str, Pipeline]:
    """The pipelines of a file by the variable that holds them, at least one. Raises PipelineError."""
    module = load_module(path)
    found = {variable: value for variable, value in vars(module).items() if isinstance(value, Pipeline)}
    if not found:
        raise PipelineError(f"{path} defines no pipeline: it needs a line like `pipeline = Pipeline(…)`")
    return found


def load_module(path: Path) -> ModuleType:
    """The file as a module."""
    if not path.is_file():
        raise PipelineError(f"{path}: no such file")
    name = MODULE_PREFIX + "".join(letter if letter.isalnum() else "_" for letter in path.stem)
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PipelineError(f"{path} is not a Python file: its name must end in .py")
    directory = str(path.resolve().parent)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        # Output of the file is not a result of the command.
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except SyntaxError as error:
        raise PipelineError(f"{path}, line {error.lineno}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        line = _line_in(path, error)
        raise PipelineError(f"{path}{line}: {type(error).__name__}: {error}") from error
    return module


def _line_in(path: Path, error: BaseException) -> str:
    """The last line of the file that led to the error."""
    file = str(path.absolute())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f", line {lines[-1]}" if lines else ""
