"""Passwords that are set while a broker runs: used at once, encrypted in the tree, shown by nothing."""

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.compat.security.secured import jaas
from tests.integration.certificates import make_certificates
from tests.integration.inside import Inside
from tidelog.client import Admin, AuthenticationFailed
from tidelog.client.aio.admin.types import ConfigChange, ConfigResource, ResourceType
from tidelog.client.errors import ClientError
from tidelog.metadata.configs import ConfigEntity, read_overrides
from tidelog.wire.errors import ApiError

NAME = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "connection.failed.authentication.delay.ms": "0",
    NAME: jaas("PLAIN", "admin", "static", user_alice="static-secret"),
}
RESOURCE = ConfigResource(ResourceType.BROKER, "1001")


def admin_of(running: Inside, password: str | None = None) -> Admin:
    ports = running.node.socket_server.ports()
    if password is None:
        return Admin({"bootstrap.servers": f"127.0.0.1:{ports['PLAINTEXT']}"})
    return Admin(
        {
            "bootstrap.servers": f"127.0.0.1:{ports['SASL_PLAINTEXT']}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas("PLAIN", "alice", password),
        }
    )


def logs_in(running: Inside, password: str) -> bool:
    try:
        with admin_of(running, password) as admin:
            admin.list_topics()
    except AuthenticationFailed:
        return False
    return True


def alter(admin: Admin, **settings: str) -> None:
    admin.incremental_alter_configs({RESOURCE: [ConfigChange(name, value) for name, value in settings.items()]})


def stored(running: Inside) -> dict[str, str]:
    async def read() -> dict[str, str]:
        return await running.node.metadata.run(read_overrides, ConfigEntity("brokers", "1001"))

    return running.run(read)


def test_a_password_is_used_encrypted_and_rotated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    changed = jaas("PLAIN", "admin", "static", user_alice="dynamic-secret")
    with Inside(tmp_path, {**SETTINGS, "password.encoder.secret": "first"}) as running:
        assert logs_in(running, "static-secret")
        with admin_of(running) as admin:
            alter(admin, **{NAME: changed, "log.cleaner.threads": "1"})
            described = admin.describe_configs([RESOURCE])[RESOURCE]
        assert (described[NAME].value, described[NAME].is_sensitive) == (None, True)
        assert [logs_in(running, each) for each in ("dynamic-secret", "static-secret")] == [True, False]
        first = stored(running)
        assert first["log.cleaner.threads"] == "1"
        assert first[NAME].startswith("keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,")
        with admin_of(running) as admin:
            # The other settings of the broker stay as they are.
            alter(admin, **{"message.max.bytes": "5000"})
        assert logs_in(running, "dynamic-secret")
    rotation = {"password.encoder.secret": "second", "password.encoder.old.secret": "first"}
    with Inside(tmp_path, {**SETTINGS, **rotation}) as running:
        assert logs_in(running, "dynamic-secret")
        second = stored(running)
    with Inside(tmp_path, {**SETTINGS, "password.encoder.secret": "second"}) as running:
        assert logs_in(running, "dynamic-secret")
        assert second[NAME] == stored(running)[NAME] != first[NAME]
    # With another secret the password is not used, and the one of server.properties is.
    with Inside(tmp_path, {**SETTINGS, "password.encoder.secret": "other"}) as running:
        assert logs_in(running, "static-secret")
    assert "is not encrypted with this password.encoder.secret" in caplog.text
    for secret in ("dynamic-secret", "static-secret", changed):
        assert secret not in caplog.text


def test_without_a_secret_passwords_are_refused(tmp_path: Path) -> None:
    refused = pytest.raises((ApiError, ClientError), match=r"only if password\.encoder\.secret is set")
    with Inside(tmp_path, SETTINGS) as running, admin_of(running) as admin, refused:
        alter(admin, **{NAME: "x"})


def test_a_certificate_that_replaces_another_has_its_names(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    settings: dict[str, Any] = {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        **certificates.broker(),
    }
    location = "listener.name.ssl.ssl.keystore.location"
    with Inside(tmp_path / "broker", settings) as running, admin_of(running) as admin:
        alter(admin, **{location: certificates.path("broker2")})
        with pytest.raises((ApiError, ClientError), match=r"SubjectAltNames do not match.*ssl\.allow\.san\.changes"):
            alter(admin, **{location: certificates.path("elsewhere")})
        with pytest.raises((ApiError, ClientError), match=r"DistinguishedName does not match.*ssl\.allow\.dn\.changes"):
            alter(admin, **{location: certificates.path("alice")})
    allowed = {"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}
    with Inside(tmp_path / "other", {**settings, **allowed}) as running, admin_of(running) as admin:
        alter(admin, **{location: certificates.path("alice")})
