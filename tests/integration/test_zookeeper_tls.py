"""A ZooKeeper that takes TLS with client certificates and nothing else."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.integration.zookeeper_support import needs_zookeeper
from tidelog.metadata.errors import StoreUnavailableError
from tidelog.metadata.zookeeper import ZooKeeperStore
from tidelog.metadata.zookeeper_options import ZooKeeperOptions, ZooKeeperTls
from tidelog.testing.zookeeper import HOST, ZooKeeperServer

pytestmark = [needs_zookeeper, pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")]

PASSWORD = "secret"


class Secured(NamedTuple):
    address: str
    files: Path


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_certificates(files: Path) -> None:
    """An authority, a server's certificate for 127.0.0.1 and a client's, whose key has a password."""
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    for name in ("ca", "other"):
        to = ("-keyout", files / f"{name}.key", "-out", files / f"{name}.pem")
        openssl("req", "-x509", *new_key, "-nodes", "-subj", f"/CN={name}", "-days", 2, *to)
    (files / "names").write_text(f"subjectAltName=IP:{HOST}")
    authority = ("-CA", files / "ca.pem", "-CAkey", files / "ca.key", "-CAcreateserial")
    for name, encryption in (("server", ["-nodes"]), ("client", ["-passout", f"pass:{PASSWORD}"])):
        key, request, certificate = (files / f"{name}.{kind}" for kind in ("key", "csr", "crt"))
        openssl("req", *new_key, *encryption, "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        signed = ("-req", "-in", request, *authority, "-days", 2, "-extfile", files / "names")
        openssl("x509", *signed, "-out", certificate)
        (files / f"{name}.pem").write_text(key.read_text() + certificate.read_text())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    files = tmp_path_factory.mktemp("certificates")
    make_certificates(files)
    secure_port = ZooKeeperServer(files / "unused").port
    settings = {
        "secureClientPort": str(secure_port),
        "secureClientPortAddress": HOST,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(files / "server.pem"),
        "ssl.trustStore.location": str(files / "ca.pem"),
        "ssl.clientAuth": "need",
    }
    flags = ["-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"]
    with ZooKeeperServer(settings=settings, java_flags=flags):
        yield Secured(f"{HOST}:{secure_port}/kafka", files)


def tls(secured: Secured, *, ca: str = "ca.pem", certificate: str | None = "client.pem") -> ZooKeeperTls:
    return ZooKeeperTls(
        ca_file=str(secured.files / ca),
        certificate_file=None if certificate is None else str(secured.files / certificate),
        key_password=PASSWORD,
    )


def test_a_client_with_a_certificate_is_served(secured: Secured) -> None:
    store = ZooKeeperStore(secured.address, ZooKeeperOptions(session_timeout_ms=20_000, tls=tls(secured)))
    try:
        data = bytes(range(256)) * 2000
        store.create("/large", data)
        assert store.get("/large")[0] == data
    finally:
        store.close()


@pytest.mark.parametrize(("ca", "certificate"), [("ca.pem", None), ("other.pem", "client.pem")])
def test_neither_side_talks_to_a_stranger(secured: Secured, ca: str, certificate: str | None) -> None:
    options = ZooKeeperOptions(
        session_timeout_ms=6_000, connection_timeout_ms=1_000, tls=tls(secured, ca=ca, certificate=certificate)
    )
    with pytest.raises(StoreUnavailableError, match="cannot be reached"):
        ZooKeeperStore(secured.address, options)
