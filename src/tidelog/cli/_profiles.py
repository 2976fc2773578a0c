"""Profiles: the settings of a cluster under a name, each a properties file that Kafka's own tools read as well.

They are `profiles/NAME.properties` in the configuration directory; the file `profile` beside them names the one in
use. Profiles may hold passwords, so only their owner can read them.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tidelog.cli.errors import CommandError
from tidelog.config import format_properties, parse_properties
from tidelog.config.names import nearest_name

VARIABLE: Final = "TIDELOG_PROFILE"
REGISTRY_SETTING: Final = "schema.registry.url"
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_SUFFIX: Final = ".properties"


class Profile(NamedTuple):
    """A profile and its settings."""

    name: str
    path: Path
    settings: Mapping[str, str]


def configuration_directory() -> Path:
    """Where the profiles of this user are: `$XDG_CONFIG_HOME/tidelog`, else `~/.config/tidelog`."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tidelog"


def names() -> list[str]:
    """Every profile."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in _directory().glob(f"*{_SUFFIX}"))


def name_in_use() -> str | None:
    """The profile that `tidelog profile use` chose."""
    try:
        return _marker().read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def read(name: str) -> Profile:
    """A profile by its name. Raises CommandError for one that there is not."""
    path = _path(name)
    try:
        return Profile(name, path, parse_properties(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        known = names()
        nearest = nearest_name(name, known)
        advice = f"did you mean {nearest!r}?" if nearest else f"there is {', '.join(known) or 'none'}"
        raise CommandError(f"there is no profile {name!r}: {advice}") from None


def find(named: str | None, *, is_cluster_named: bool) -> Profile | None:
    """The profile of a command: the one it names, by `--profile` or the variable; else the one in use.

    The one in use stands back for a command that names its cluster in another way, so that the credentials of one
    cluster are never sent to another.
    """
    chosen = named or os.environ.get(VARIABLE)
    if chosen:
        return read(chosen)
    in_use = None if is_cluster_named else name_in_use()
    return None if in_use is None else read(in_use)


def write(name: str, settings: Mapping[str, str], *, replace: bool) -> Path:
    """Create a profile."""
    path = _path(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    waiting = path.with_name(f".{name}.new")
    waiting.unlink(missing_ok=True)
    with open(os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(format_properties(settings))
    try:
        if replace:
            waiting.replace(path)
        else:
            path.hardlink_to(waiting)
    except FileExistsError:
        raise CommandError(f"there is a profile {name!r} already, {path}; --replace writes it again") from None
    finally:
        waiting.unlink(missing_ok=True)
    return path


def use(name: str | None) -> None:
    """Make a profile the one in use, or none."""
    if name is None:
        _marker().unlink(missing_ok=True)
        return
    _marker().write_text(f"{read(name).name}\n", encoding="utf-8")


def delete(name: str) -> bool:
    """Delete a profile; returns whether it was the one in use."""
    read(name).path.unlink()
    was_in_use = name_in_use() == name
    if was_in_use:
        use(None)
    return was_in_use


def _directory() -> Path:
    return configuration_directory() / "profiles"


def _marker() -> Path:
    return configuration_directory() / "profile"


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise CommandError(f"{name!r} is not the name of a profile: letters, digits, '.', '_' and '-'")
    return _directory() / f"{name}{_SUFFIX}"
