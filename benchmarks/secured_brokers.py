"""Brokers with a listener of each kind: PLAINTEXT for control calls, SSL, and SASL_PLAINTEXT with SCRAM-SHA-256.

Both kinds of broker get the same certificate, settings and user. Both have an authorizer, which allows everything as
long as there are no ACLs (`allow.everyone.if.no.acl.found`).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.apache_kafka import Ensemble, KafkaBroker
from benchmarks.processes import HOST, BrokerProcess, free_port
from benchmarks.tidelog_broker import TidelogBroker
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import ScramCredentialUpsert
from tidelog.security.authority import Authority
from tidelog.security.scram import salted_password

MECHANISM: Final = "SCRAM-SHA-256"
USER, PASSWORD = "alice", "alice-secret"
ITERATIONS: Final = 4096
_SALT: Final = b"the salt of alice"
_SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


@dataclass(frozen=True, slots=True)
class SecurePorts:
    """Where the listeners of one broker are."""

    tls: int
    scram: int


class SecuredTidelog(TidelogBroker):
    """Ours."""

    def __init__(self, directory: Path, settings: Mapping[str, str], certificate: Path) -> None:
        super().__init__(directory, settings)
        self.ports = SecurePorts(free_port(), free_port())
        self._settings |= secured(self.port, self.ports, certificate)


class SecuredKafka(KafkaBroker):
    """Apache Kafka."""

    def __init__(self, directory: Path, zookeeper: Ensemble, settings: Mapping[str, str], certificate: Path) -> None:
        super().__init__(directory, zookeeper, settings)
        self.ports = SecurePorts(free_port(), free_port())
        self._settings |= secured(self.port, self.ports, certificate)


def ports_of(broker: BrokerProcess) -> SecurePorts:
    """The listeners of a secured broker."""
    assert isinstance(broker, SecuredTidelog | SecuredKafka), "these cases run on secured brokers"
    return broker.ports


def secured(port: int, ports: SecurePorts, certificate: Path) -> dict[str, str]:
    """Settings that both brokers understand."""
    return {
        "listeners": f"PLAINTEXT://{HOST}:{port},SSL://{HOST}:{ports.tls},SASL_PLAINTEXT://{HOST}:{ports.scram}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.sasl_plaintext.{MECHANISM.lower()}.sasl.jaas.config": f"{_SCRAM} required;",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }


def write_certificate(path: Path) -> Path:
    """The key and certificate of a broker, of an authority that is forgotten at once: the load checks none."""
    identity = Authority("benchmarks", datetime.now(UTC), 7).issue("broker", datetime.now(UTC), 7, [HOST])
    path.touch(mode=0o600)
    path.write_text(identity.pem)
    return path


def client_context() -> ssl.SSLContext:
    """A client that checks nothing, and resumes no session: every handshake is whole."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def add_user(broker: BrokerProcess) -> None:
    """Give the user its password; nothing changes if it has it."""
    salted = salted_password(MECHANISM, PASSWORD, _SALT, ITERATIONS)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_user_scram_credentials([ScramCredentialUpsert(USER, MECHANISM, ITERATIONS, _SALT, salted)])
