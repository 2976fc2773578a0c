"""A registry, generated Protobuf classes, and a real Apicurio where Java and Maven are there."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.integration.real_registry import real_registry
from tidelog.testing import Broker
from tidelog.testing.registry import SchemaRegistryServer

HERE = Path(__file__).parent


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as server:
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


@pytest.fixture(scope="session")
def apicurio() -> Iterator[str]:
    """The URL of a running Apicurio's Confluent-compatible API."""
    with Broker() as broker, real_registry(broker.bootstrap_servers) as url:
        yield url
