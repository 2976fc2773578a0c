"""`tidelog security init`: certificates, an administrator, and the settings of a broker and a client that use them.

Everything is written into one new directory. Files with a key or a password can be read by their owner alone.
"""

import os
import secrets
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from tidelog.cli._user_tree import store_in_tree
from tidelog.cli._verbs import noun, verb
from tidelog.cli.errors import CommandError
from tidelog.cli.output import Result
from tidelog.client.addresses import address_text
from tidelog.config import format_properties
from tidelog.security.scram import ITERATIONS_MIN, make_credential, new_salt, salted_password

_MECHANISM: Final = "SCRAM-SHA-512"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LISTENER: Final = "SASL_SSL"


def register(application: typer.Typer) -> None:
    """Add the noun and its verbs."""
    security = noun(application, "security", "Certificates and credentials for a secured broker.")
    verb(security, "init", init, "tidelog security init secured --host broker1.example")


def init(
    directory: Annotated[
        Path, typer.Argument(help="Where to write; must not exist, or be empty.", metavar="DIRECTORY")
    ],
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Name or address under which clients reach the broker; may be repeated. The first is advertised.",
            show_default="localhost",
            metavar="HOST",
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the broker.", min=0, max=65535)] = 9093,
    admin: Annotated[str, typer.Option(help="Name of the administrator, who may do everything.")] = "admin",
    days: Annotated[int, typer.Option(help="How long the certificates are valid.", min=1, max=3650)] = 825,
) -> Result:
    """Write a CA, certificates, an administrator and settings: a broker with TLS, SCRAM and access control."""
    if directory.exists() and any(directory.iterdir()):
        raise CommandError(f"{directory} exists and is not empty; nothing was written")
    hosts = host or ["localhost"]
    address = address_text(hosts[0], port)
    names = list(dict.fromkeys([*hosts, "localhost", "127.0.0.1", "::1", socket.gethostname()]))
    directory.mkdir(parents=True, exist_ok=True)
    os.chmod(directory, 0o700)
    home = directory.resolve()
    _write_certificates(home, names, admin, days)
    password = secrets.token_urlsafe(24)
    server, client = home / "server.properties", home / "client.properties"
    _write_secret(server, format_properties(_server_settings(home, address, port, admin, password)))
    _write_secret(client, format_properties(_client_settings(home, address, admin, password)))
    salt = new_salt()
    salted = salted_password(_MECHANISM, password, salt, ITERATIONS_MIN)
    credential = str(make_credential(_MECHANISM, salted, salt, ITERATIONS_MIN))
    store_in_tree(server, admin, [(_MECHANISM, credential)])
    return _written(home, address, admin)


def _write_certificates(home: Path, hosts: list[str], admin: str, days: int) -> None:
    try:
        from tidelog.security.authority import Authority
    except ModuleNotFoundError as error:
        raise CommandError(f"this needs {error.name}: pip install 'tidelog[security]'") from error
    now = datetime.now(UTC)
    authority = Authority("Tidelog CA", now, days)
    (home / "ca.pem").write_text(authority.certificate_pem, encoding="ascii")
    _write_secret(home / "ca.key", authority.identity.key_pem)
    _write_secret(home / "broker.pem", authority.issue("broker", now, days, hosts).pem)
    _write_secret(home / "client.pem", authority.issue(admin, now, days).pem)


def _server_settings(home: Path, address: str, port: int, admin: str, password: str) -> dict[str, str]:
    prefix = f"listener.name.{_LISTENER.lower()}.{_MECHANISM.lower()}"
    return {
        "listeners": f"{_LISTENER}://:{port}",
        "advertised.listeners": f"{_LISTENER}://{address}",
        "security.inter.broker.protocol": _LISTENER,
        "log.dirs": str(home / "data"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / "ca.pem"),
        "sasl.enabled.mechanisms": _MECHANISM,
        "sasl.mechanism.inter.broker.protocol": _MECHANISM,
        f"{prefix}.sasl.jaas.config": _jaas(admin, password),
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{admin}",
    }


def _client_settings(home: Path, address: str, admin: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": address,
        "security.protocol": _LISTENER,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home / "ca.pem"),
        "sasl.mechanism": _MECHANISM,
        "sasl.jaas.config": _jaas(admin, password),
    }


def _jaas(user: str, password: str) -> str:
    quoted = user.replace("\\", "\\\\").replace('"', '\\"')
    return f'{_MODULE} required username="{quoted}" password="{password}";'


def _write_secret(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _written(home: Path, address: str, admin: str) -> Result:
    files: Mapping[str, str] = {
        "ca.pem": "the certificate that clients trust",
        "ca.key": "the CA's key: keep it elsewhere, it signs further certificates",
        "broker.pem": "the broker's key and certificate",
        "client.pem": f"a client certificate for {admin}, for listeners with ssl.client.auth",
        "server.properties": "settings of the broker",
        "client.properties": "settings of clients, with the administrator's password",
    }
    lines = [f"{home / name}  {meaning}" for name, meaning in files.items()]
    lines += ["", f"tidelog serve --config {home / 'server.properties'}"]
    lines.append(f"tidelog topic list --bootstrap-server {address} --command-config {home / 'client.properties'}")
    document = {"directory": str(home), "files": list(files), "address": address, "admin": admin}
    return Result(document, "\n".join(lines))
