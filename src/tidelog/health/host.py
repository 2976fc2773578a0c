"""What is wrong with a machine and a settings file, before or while a broker runs there."""

import os
import resource
import shutil
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tidelog.config import ConfigError, load_broker_config, parse_properties
from tidelog.health.findings import Finding, Level

DESCRIPTORS_WANTED: Final = 65_536
FREE_BYTES_WANTED: Final = 10 << 30
_PERCENT_FREE_MIN: Final = 0.05
_SPEEDUPS: Final = ("tidelog.network._speedups", "tidelog.records._speedups", "tidelog.wire._speedups")


def examine_host(config: Path | None) -> list[Finding]:
    """The machine that this runs on, and the settings file of a broker."""
    found = [*_limits(), *_software()]
    if config is not None:
        found += _settings(config)
    return sorted(found, key=lambda each: -each.level)


def _limits() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS_WANTED:
        text = f"a process may have {hard:,} files and connections open (now {soft:,})"
        advice = f"Raise the limit to {DESCRIPTORS_WANTED:,} (ulimit -n, or LimitNOFILE= of the service)."
        yield Finding(Level.WARNING, "limits", text, advice)


def _software() -> Iterator[Finding]:
    if find_spec("uvloop") is None and sys.platform != "win32":
        text = "uvloop is not installed: a broker takes about twice the processor time"
        yield Finding(Level.NOTE, "python", text, "pip install uvloop")
    missing = [name for name in _SPEEDUPS if _is_missing(name)]
    if missing:
        text = f"{', '.join(missing)} were not built: records are checked in Python"
        advice = "Install a C compiler and Python's headers, then install Tidelog again."
        yield Finding(Level.NOTE, "python", text, advice)


def _is_missing(name: str) -> bool:
    return os.environ.get("TIDELOG_SPEEDUPS") != "off" and find_spec(name) is None


def _settings(path: Path) -> Iterator[Finding]:
    try:
        config = load_broker_config(parse_properties(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        yield Finding(Level.BAD, str(path), f"a broker does not start with it: {error}", "Correct the setting.")
        return
    for directory in config.log_dirs:
        yield from _directory(Path(directory))


def _directory(path: Path) -> Iterator[Finding]:
    existing = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not os.access(existing, os.W_OK):
        text = "this user may not write there"
        yield Finding(Level.BAD, str(path), text, f"chown it to the broker's user (now uid {os.getuid()}).")
        return
    usage = shutil.disk_usage(existing)
    if usage.free < min(FREE_BYTES_WANTED, usage.total * _PERCENT_FREE_MIN):
        text = f"the disk has {usage.free / 1e9:,.1f} GB of {usage.total / 1e9:,.1f} GB left"
        yield Finding(Level.WARNING, str(path), text, "Free some space, or choose another directory for log.dirs.")
