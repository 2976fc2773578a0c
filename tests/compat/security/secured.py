"""A broker with a listener of every kind, and what clients of each library need to reach them."""

import ssl
from collections.abc import Mapping
from pathlib import Path

from tests.integration.certificates import Certificates

USER, PASSWORD = "alice", 'al,ice"s = secret'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
METADATA_SOON = {"metadata_max_age_ms": 5000}
"""For kafka-python, whose consumers may miss their topic while they bootstrap: until a refresh they read nothing."""
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def jaas(mechanism: str, user: str = USER, password: str = PASSWORD, **more: str) -> str:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    options = {"username": user, "password": password, **more}
    return f"{module} required {' '.join(f'{name}={quoted(value)}' for name, value in options.items())};"


def broker_settings(certificates: Certificates, **more: str) -> dict[str, str]:
    """One listener of each protocol; PLAINTEXT is for brokers, and for setting up users."""
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *PROTOCOLS)),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connection.failed.authentication.delay.ms": "10",
        "ssl.client.auth": "requested",
        **certificates.broker(),
        **more,
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        name = f"listener.name.{listener}.plain.sasl.jaas.config"
        settings[name] = jaas("PLAIN", "admin", "admin-secret", **{f"user_{USER}": PASSWORD})
    return settings


def with_tls_listener(settings: Mapping[str, str], certificates: Certificates) -> dict[str, str]:
    """A broker whose last listener is SASL_PLAINTEXT gets a SASL_SSL listener with the same mechanism."""
    plain, encrypted = "listener.name.sasl_plaintext.", "listener.name.sasl_ssl."
    listeners = settings["listeners"]
    same = listeners.rpartition(",")[2].replace("SASL_PLAINTEXT", "SASL_SSL")
    return {
        **settings,
        **{name.replace(plain, encrypted): value for name, value in settings.items() if name.startswith(plain)},
        **certificates.broker(),
        "listeners": f"{listeners},{same}",
    }


def java_transport(certificates: Certificates, protocol: str) -> dict[str, str]:
    """Settings of the Java client, and of ours, below those of a mechanism."""
    settings = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": certificates.path("ca")}
    return settings


def java_settings(
    certificates: Certificates, protocol: str, mechanism: str, password: str = PASSWORD
) -> dict[str, str]:
    """Settings of the Java client, and of ours."""
    settings = java_transport(certificates, protocol)
    if protocol.startswith("SASL"):
        settings |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, password=password)}
    return settings


def librdkafka_transport(certificates: Certificates, protocol: str) -> dict[str, str]:
    settings = {"security.protocol": protocol}
    if protocol.endswith("SSL"):
        settings |= {"ssl.ca.location": certificates.path("ca")}
    return settings


def librdkafka_settings(
    certificates: Certificates, protocol: str, mechanism: str, password: str = PASSWORD
) -> dict[str, str]:
    settings = librdkafka_transport(certificates, protocol)
    if protocol.startswith("SASL"):
        settings |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": password}
    return settings


def python_transport(certificates: Certificates, protocol: str) -> dict[str, object]:
    """Of kafka-python and aiokafka."""
    settings: dict[str, object] = {"security_protocol": protocol}
    if protocol.endswith("SSL"):
        settings["ssl_context"] = ssl.create_default_context(cafile=certificates.path("ca"))
    return settings


def python_settings(
    certificates: Certificates, protocol: str, mechanism: str, password: str = PASSWORD
) -> dict[str, object]:
    """Of kafka-python and aiokafka."""
    settings = python_transport(certificates, protocol)
    if protocol.startswith("SASL"):
        settings |= {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": USER,
            "sasl_plain_password": password,
        }
    return settings


def write_properties(path: Path, settings: Mapping[str, str]) -> Path:
    """A file for the tools of Kafka."""
    lines = [f"{name}={value}".replace("\\", "\\\\") for name, value in settings.items()]
    path.write_text("\n".join(lines) + "\n")
    return path
