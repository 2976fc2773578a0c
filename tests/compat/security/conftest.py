"""One secured broker for the module, with a user for every mechanism."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from tests.compat.security.secured import PASSWORD, USER, broker_settings
from tests.integration.certificates import Certificates, make_certificates
from tests.integration.inside import Inside


@dataclass(frozen=True)
class Secured:
    certificates: Certificates
    inside: Inside

    def address(self, protocol: str) -> str:
        return f"127.0.0.1:{self.inside.node.socket_server.ports()[protocol]}"

    def principals(self) -> set[str]:
        """Of the connections that are open now."""
        connections = self.inside.node.socket_server.connections
        return self.inside.on_loop(lambda: {each.session.principal for each in connections.values()})


@contextmanager
def secured_broker(home: Path, users: dict[str, str], **settings: str) -> Iterator[Secured]:
    """A broker with a listener of every kind and SCRAM credentials of these users, by their passwords."""
    home.mkdir(parents=True, exist_ok=True)
    certificates = make_certificates(home)
    with Inside(home / "broker", broker_settings(certificates, **settings)) as inside:
        found = Secured(certificates, inside)
        admin = AdminClient({"bootstrap.servers": found.address("PLAINTEXT")})
        upserts: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 4096), password.encode(), b"salt of it")
            for user, password in users.items()
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for future in admin.alter_user_scram_credentials(upserts).values():
            future.result(20)
        yield found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_broker(tmp_path_factory.mktemp("secured"), {USER: PASSWORD}) as found:
        yield found
