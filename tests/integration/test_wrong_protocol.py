"""A client whose security.protocol is not the listener's: the error names the address and the setting."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.certificates import Certificates, make_certificates
from tidelog.client import Admin, BootstrapFailed
from tidelog.testing import Broker

SETTINGS: dict[str, Any] = {"bootstrap_timeout_ms": 500, "request_timeout_ms": 3000, "default_api_timeout_ms": 3000}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def plain() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def secure(certificates: Certificates) -> Iterator[Broker]:
    listener = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"}
    with Broker({**listener, **certificates.broker()}) as broker:
        yield broker


def failure_of(bootstrap_servers: str, **settings: Any) -> str:
    with pytest.raises(BootstrapFailed) as raised, Admin(bootstrap_servers=bootstrap_servers, **SETTINGS, **settings):
        pass
    return str(raised.value)


def test_tls_to_a_listener_without_tls(plain: Broker, certificates: Certificates) -> None:
    failure = failure_of(plain.bootstrap_servers, security_protocol="SSL")
    assert plain.bootstrap_servers in failure
    assert "security.protocol" in failure
    assert "TLS" in failure


def test_no_tls_to_a_listener_with_tls(secure: Broker) -> None:
    failure = failure_of(secure.bootstrap_servers, security_protocol="PLAINTEXT")
    assert secure.bootstrap_servers in failure
    assert "security.protocol" in failure
