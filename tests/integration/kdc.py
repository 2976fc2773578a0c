"""A Kerberos realm for tests: a KDC of MIT's in a directory of its own, on a free port.

Nothing of the machine's own configuration is read or changed. `unavailable_reason` says what is missing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes import free_port

REALM = "TIDELOG.TEST"
SERVICE = "kafka"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "kdestroy")
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def unavailable_reason() -> str | None:
    """Why there can be no realm here, or None."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"{', '.join(missing)} of MIT Kerberos is not installed (krb5-kdc, krb5-admin-server, krb5-user)"
    if importlib.util.find_spec("gssapi") is None:
        return "python-gssapi is not installed (pip install 'tidelog[kerberos]')"
    return None


class Realm:
    """A running KDC."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.config = directory / "krb5.conf"
        self.environment = {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(directory / "kdc.conf")}

    def write(self) -> None:
        self.config.write_text(
            f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
            f" default_ccache_name = FILE:{self.directory}/ccache\n"
            f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n }}\n"
            f"[domain_realm]\n localhost = {REALM}\n"
        )
        (self.directory / "kdc.conf").write_text(
            f'[kdcdefaults]\n kdc_listen = ""\n kdc_tcp_listen = 127.0.0.1:{self.port}\n'
            f"[realms]\n {REALM} = {{\n  database_name = {self.directory}/principal\n"
            f"  key_stash_file = {self.directory}/stash\n  max_life = 1h\n }}\n"
        )

    def run(self, *command: str, text: str = "") -> str:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, **self.environment, "PATH": _PATH},
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def key_tab(self, principal: str) -> str:
        """Adds a principal; returns the path of its key table."""
        path = self.directory / f"{principal.replace('/', '-')}.keytab"
        if not path.exists():
            lines = f"addprinc -randkey {principal}\nktadd -k {path} {principal}\n"
            self.run("kadmin.local", "-r", REALM, text=lines)
        assert path.exists(), principal
        return str(path)

    def jaas(self, principal: str) -> str:
        return (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{self.key_tab(principal)}" principal="{principal}@{REALM}";'
        )

    def broker_settings(self, **more: str) -> dict[str, str]:
        """A listener with GSSAPI, beside one for brokers. Apache Kafka takes the same."""
        return {
            "listeners": "PLAINTEXT://localhost:0,SASL_PLAINTEXT://localhost:0",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "connection.failed.authentication.delay.ms": "10",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": self.jaas(f"{SERVICE}/localhost"),
            **more,
        }

    def client_settings(self, principal: str = "alice") -> dict[str, str]:
        """Of the Java client, and of ours."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": SERVICE,
            "sasl.jaas.config": self.jaas(principal),
        }


@contextmanager
def realm(directory: Path) -> Iterator[Realm]:
    """Runs a KDC, and lets this process and its children use it."""
    made = Realm(directory)
    made.write()
    made.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    before = {name: os.environ.get(name) for name in made.environment}
    with open(directory / "kdc.out", "wb") as output:
        environment = {**os.environ, **made.environment, "PATH": _PATH}
        kdc = subprocess.Popen(["krb5kdc", "-n", "-r", REALM], stdout=output, stderr=output, env=environment)
    try:
        _wait(made.port, kdc)
        os.environ.update(made.environment)
        yield made
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        kdc.terminate()
        kdc.wait(20)


def _wait(port: int, kdc: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            assert kdc.poll() is None, "the KDC ended"
            assert time.monotonic() < deadline, "the KDC does not listen"
            time.sleep(0.02)
