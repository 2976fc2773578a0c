"""A real schema registry whose storage is a topic of a Tidelog broker: Apicurio 3 with its `kafkasql` storage.

(Karapace, which would do as well, is not published on PyPI.) Its archive is fetched once from the repository that Maven
is set up with and kept in the cache; tests are skipped with the reason where it, Maven or Java cannot be had. Maven
itself does not fetch it: the archive's POM has a parent that was not published.
"""

import os
import re
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
_ARCHIVE = f"io/apicurio/apicurio-registry-app/{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
_HELP_PLUGIN = "org.apache.maven.plugins:maven-help-plugin:3.4.0"
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
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("Apicurio needs Java and Maven")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog"
    base = cache / f"apicurio-{VERSION}"
    if not base.is_dir():
        part = cache / f"apicurio-{VERSION}.{os.getpid()}"
        part.mkdir(parents=True)
        try:
            archive = f"{_maven_repository(part)}/{_ARCHIVE}"
            with urllib.request.urlopen(archive, timeout=60) as reply, tarfile.open(fileobj=reply, mode="r|gz") as tar:
                tar.extractall(part, filter="data")
            part.rename(base)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(part)
            if not base.is_dir():  # otherwise another process was quicker
                pytest.skip(f"Apicurio {VERSION} cannot be fetched: {error}")
    return next(base.glob("*-runner.jar"))


def _maven_repository(directory: Path) -> str:
    """The address of the repository that Maven asks first, mirrors considered."""
    command = ["mvn", "-B", "-q", f"{_HELP_PLUGIN}:evaluate", "-DforceStdout"]
    command.append("-Dexpression=project.remoteArtifactRepositories[0].url")
    printed = subprocess.run(
        command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=True
    ).stdout
    found = re.search(r"https?://[^\s\x1b]+", printed)
    if found is None:
        raise OSError(f"Maven names no repository: {printed[-200:]!r}")
    return found[0].rstrip("/")
