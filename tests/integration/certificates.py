"""Certificates for tests: an authority, a broker, clients, one that has expired, and another authority."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tidelog.security.authority import Authority, Identity

HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Certificates:
    """Files in `home`, as settings of brokers and clients name them."""

    home: Path

    def path(self, name: str) -> str:
        return str(self.home / f"{name}.pem")

    def broker(self, name: str = "broker") -> dict[str, str]:
        """`ssl.*` of a broker that trusts the authority's clients."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.path(name),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.path("ca"),
        }

    def client(self, name: str | None = None, trusted: str = "ca") -> dict[str, str]:
        """`ssl.*` of a client under Java's names; `name` is its certificate."""
        settings = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.path(trusted),
        }
        if name is not None:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.path(name)}
        return settings


def make_certificates(home: Path) -> Certificates:
    """Write them all."""
    now = datetime.now(UTC)
    authority, other = Authority("test authority", now, 30), Authority("another authority", now, 30)
    issued: dict[str, Identity] = {
        "broker": authority.issue("broker", now, 30, HOSTS),
        "broker2": authority.issue("broker", now, 30, HOSTS),
        "elsewhere": authority.issue("broker", now, 30, ["elsewhere.example"]),
        "expired": authority.issue("broker", now, -1, HOSTS),
        "alice": authority.issue("alice", now, 30),
        "expired-alice": authority.issue("alice", now, -1),
        "mallory": other.issue("mallory", now, 30),
    }
    for name, identity in issued.items():
        path = home / f"{name}.pem"
        path.touch(mode=0o600)
        path.write_text(identity.pem)
        (home / f"{name}.key").write_text(identity.key_pem)
        (home / f"{name}.crt").write_text(identity.certificate_pem)
    (home / "ca.pem").write_text(authority.certificate_pem)
    (home / "other.pem").write_text(other.certificate_pem)
    return Certificates(home)
