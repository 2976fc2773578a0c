"""A real schema registry whose storage is a topic of a Tidelog broker: Apicurio 3 with its `kafkasql` storage.

(Karapace, which would do as well, is not published on PyPI.) Its archive is fetched once from Maven Central and kept in
the cache; tests are skipped with the reason where it or Java cannot be had.
"""

import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

VERSION = "3.0.9"
_ARCHIVE = (
    "https://repo.maven.apache.org/maven2/io/apicurio/apicurio-registry-app/"
    f"{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
)
_START_S = 180


@contextmanager
def real_registry(bootstrap_servers: str) -> Iterator[str]:
    """The URL of a registry that keeps its schemas in the cluster at `bootstrap_servers`."""
    jar = _jar()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *("java", "-Xmx512m", "-XX:TieredStopAtLevel=1"),
        *(f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"),
        *("-Dapicurio.storage.kind=kafkasql", f"-Dapicurio.kafkasql.bootstrap.servers={bootstrap_servers}"),
        *("-jar", str(jar)),
    ]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        try:
            if not _answers(url, process):
                output.seek(0)
                raise AssertionError(output.read()[-2000:].decode(errors="replace"))
            yield url
        finally:
            process.kill()
            process.wait()


def _answers(url: str, process: "subprocess.Popen[bytes]") -> bool:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/subjects", timeout=5):
                return True
        except OSError:
            time.sleep(0.1)
    return False


def _jar() -> Path:
    if shutil.which("java") is None:
        pytest.skip("Apicurio needs Java")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog"
    base = cache / f"apicurio-{VERSION}"
    if not base.is_dir():
        part = cache / f"apicurio-{VERSION}.{os.getpid()}"
        part.mkdir(parents=True)
        try:
            with urllib.request.urlopen(_ARCHIVE, timeout=60) as reply, tarfile.open(fileobj=reply, mode="r|gz") as tar:
                tar.extractall(part, filter="data")
            part.rename(base)
        except OSError as error:
            shutil.rmtree(part)
            if not base.is_dir():  # otherwise another process was quicker
                pytest.skip(f"Apicurio {VERSION} cannot be fetched: {error}")
    return next(base.glob("*-runner.jar"))
