"""Files that hold keys and certificates: read, checked for their permissions, and lent to OpenSSL.

The only module of this room that touches the disk. OpenSSL loads a certificate chain from a path and from nothing else,
so inline settings and converted key stores pass through a file in memory (or a temporary one) that is gone at once.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidelog.config.errors import ConfigError

logger = logging.getLogger(__name__)

_OTHERS: Final = 0o077
_FILE_BYTES_MAX: Final = 16 << 20


def read_file(path: str, setting: str, *, is_secret: bool) -> bytes:
    """The bytes of a file that `setting` names. Raises ConfigError; warns if others may read a secret."""
    try:
        with open(path, "rb") as file:
            if is_secret and (mode := os.fstat(file.fileno()).st_mode & _OTHERS):
                logger.warning(
                    "%s: %s holds a private key and other users of this machine have the permissions %03o on it; "
                    "run chmod 600 on the file",
                    setting,
                    path,
                    mode,
                )
            data = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{setting}: {path} cannot be read: {error.strerror or error}", setting=setting) from error
    if len(data) > _FILE_BYTES_MAX:
        raise ConfigError(f"{setting}: {path} has more than {_FILE_BYTES_MAX} bytes", setting=setting)
    return data


@contextmanager
def as_path(data: bytes) -> Iterator[str]:
    """A path under which `data` can be read until the block ends; only this process can read it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("tidelog-pem", os.MFD_CLOEXEC)
        path = f"/proc/self/fd/{fd}"
    else:
        fd, path = tempfile.mkstemp(prefix="tidelog-", suffix=".pem")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        yield path
    finally:
        os.close(fd)
        if not path.startswith("/proc/"):
            os.unlink(path)
