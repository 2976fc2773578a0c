"""Settings of connections in a properties file on the driver: the option `commandConfig`.

Spark prints the options of sources and sinks in plans, in its web interface and in event logs. An option that names a
file keeps passwords and keys out of all of them: the driver's processes read the file when they plan a batch. Each
setting `name` of the file counts as the option `kafka.name`, unless that option is given as well.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from tidelog.config import parse_properties
from tidelog.config.errors import ConfigError
from tidelog.config.properties import format_properties

COMMAND_CONFIG: Final = "commandConfig"


def read_command_config(path: str) -> dict[str, str]:
    """The settings of a file. Raises ValueError with the path and the reason; no text holds a value of the file."""
    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{COMMAND_CONFIG} {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{COMMAND_CONFIG} {path} is not UTF-8 text") from None
    except ConfigError as error:
        raise ValueError(f"{COMMAND_CONFIG} {path}: {error}") from None


def private_file(settings: Mapping[str, str]) -> str:
    """A file with these settings that only this user can read; it is deleted when this process ends."""
    text = format_properties(dict(sorted(settings.items())))
    path = Path(_directory(os.getpid()), f"{sha256(text.encode()).hexdigest()[:24]}.properties")
    if not path.exists():
        draft = path.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    return str(path)


@cache
def _directory(process_id: int) -> str:
    """One for each process: a fork has its own, and deletes no other."""
    directory = tempfile.mkdtemp(prefix="tidelog-client-")

    def delete() -> None:
        if os.getpid() == process_id:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(delete)
    return directory
