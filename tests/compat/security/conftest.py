"""One secured broker for the module, with a user for every mechanism."""

from collections.abc import Iterator
from dataclasses import dataclass

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


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    certificates = make_certificates(tmp_path_factory.mktemp("certificates"))
    with Inside(tmp_path_factory.mktemp("broker"), broker_settings(certificates)) as inside:
        found = Secured(certificates, inside)
        admin = AdminClient({"bootstrap.servers": found.address("PLAINTEXT")})
        upserts: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(
                USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode(), b"salt-of-alice"
            )
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for future in admin.alter_user_scram_credentials(upserts).values():
            future.result(20)
        yield found
