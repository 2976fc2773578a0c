"""A registry, generated Protobuf classes, and a real Apicurio where Java and Maven are there."""

import importlib
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.integration.registry_server import RegistryServer, registry_server

HERE = Path(__file__).parent
APICURIO_VERSION = "2.6.13.Final"


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with registry_server() as server:
        yield server


@pytest.fixture(scope="session")
def orders_pb2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The module that protoc makes of orders.proto."""
    out = tmp_path_factory.mktemp("protobuf")
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{HERE}", f"--python_out={out}", "orders.proto", "money.proto"],
        check=True,
        cwd=HERE,
    )
    sys.path.insert(0, str(out))
    try:
        yield importlib.import_module("orders_pb2")
    finally:
        sys.path.remove(str(out))


def _apicurio_jar() -> Path:
    """Apicurio's runner, fetched once through Maven. Skips where it cannot be had."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog" / f"apicurio-{APICURIO_VERSION}"
    if not base.is_dir():
        if shutil.which("mvn") is None or shutil.which("java") is None:
            pytest.skip("Apicurio needs Java and Maven")
        part = base.with_name(f"{base.name}.{os.getpid()}")
        part.mkdir(parents=True)
        artifact = f"io.apicurio:apicurio-registry-app:{APICURIO_VERSION}:tar.gz:all"
        plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
        command = ["mvn", "-B", "-q", plugin, f"-Dartifact={artifact}", f"-DoutputDirectory={part}"]
        fetched = subprocess.run(command, capture_output=True, text=True, cwd=part, stdin=subprocess.DEVNULL)
        if fetched.returncode:
            shutil.rmtree(part)
            pytest.skip(f"Maven could not fetch Apicurio: {fetched.stdout[-300:]}")
        (archive,) = part.glob("*.tar.gz")
        with tarfile.open(archive) as tar:
            tar.extractall(part, filter="data")
        archive.unlink()
        try:
            part.rename(base)
        except OSError:
            shutil.rmtree(part)  # another process was quicker
    return next(base.glob("*-runner.jar"))


@pytest.fixture(scope="session")
def apicurio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running Apicurio's Confluent-compatible API."""
    jar = _apicurio_jar()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    output = tmp_path_factory.mktemp("apicurio") / "output"
    command = ["java", f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1", "-jar", str(jar)]
    with output.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
        url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        try:
            _wait_for(url, process, output)
            yield url
        finally:
            process.terminate()


def _wait_for(url: str, process: "subprocess.Popen[bytes]", output: Path) -> None:
    deadline = time.monotonic() + 180
    while True:
        try:
            with urllib.request.urlopen(f"{url}/subjects", timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(output.read_text()[-2000:]) from None
            time.sleep(0.1)
