"""Where a table lies: a local directory or an object store, for the three libraries that open its files.

Settings have the names that AWS gives them (`AWS_ENDPOINT_URL`, `AWS_ACCESS_KEY_ID`, …): those of the endpoint in the
pipeline come first, then the driver's environment. Executors get the driver's settings, so they need none of their own.
Without keys each library looks for them as AWS's own tools do (profiles, roles of a machine).
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Settings = Mapping[str, str]

_ARROW: Final = {
    "AWS_ACCESS_KEY_ID": "access_key",
    "AWS_SECRET_ACCESS_KEY": "secret_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
}
_ICEBERG: Final = {
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_REGION": "s3.region",
}
NAMES: Final = frozenset(_ICEBERG)
"""The settings that a table may have."""


def is_remote(path: str) -> bool:
    """Whether a path names an object store, or anything but a directory of this machine."""
    return "://" in path and not path.startswith("file://")


def settings(given: Settings) -> dict[str, str]:
    """The settings of the endpoint and, where it has none, of the environment."""
    found = {name: os.environ[name] for name in sorted(NAMES) if os.environ.get(name)}
    for service, general in (("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), ("AWS_DEFAULT_REGION", "AWS_REGION")):
        if os.environ.get(service):
            found.setdefault(general, os.environ[service])
    return {**found, **given}


def for_delta(path: str, found: Settings) -> dict[str, str] | None:
    """As `deltalake` wants it; None for a local table."""
    if not is_remote(path):
        return None
    return {**found, **({"AWS_ALLOW_HTTP": "true"} if _endpoint(found).startswith("http:") else {})}


def for_iceberg(found: Settings) -> dict[str, str]:
    """As properties of an Iceberg catalog."""
    return {_ICEBERG[name]: value for name, value in found.items() if name in _ICEBERG}


def files_of(path: str, found: Settings) -> "tuple[FileSystem, str]":
    """The file system of a path, and the path inside it."""
    from pyarrow import fs

    parts = urlsplit(path)
    if parts.scheme in ("s3", "s3a", "s3n"):
        arguments: dict[str, Any] = {_ARROW[name]: value for name, value in found.items() if name in _ARROW}
        endpoint = urlsplit(_endpoint(found))
        if endpoint.netloc:
            arguments |= {"scheme": endpoint.scheme, "endpoint_override": endpoint.netloc}
        return fs.S3FileSystem(**arguments), f"{parts.netloc}{parts.path}"
    if is_remote(path) or path.startswith("file://"):
        found_files: tuple[FileSystem, str] = fs.FileSystem.from_uri(path)
        return found_files
    return fs.LocalFileSystem(), os.path.abspath(path)


def _endpoint(found: Settings) -> str:
    return found.get("AWS_ENDPOINT_URL", "")
