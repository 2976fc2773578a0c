"""A broker with one listener, SASL_SSL, for the tests of Spark: its settings, and those of its clients."""

from tests.integration.certificates import Certificates

ADMIN, ADMIN_PASSWORD = "admin", "of-the-admin-alone"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def broker_settings(certificates: Certificates, **more: str) -> dict[str, str]:
    """The broker and its administrator log in with PLAIN, users with SCRAM; it makes delegation tokens."""
    users = f'{_login("PLAIN", ADMIN, ADMIN_PASSWORD)} user_{ADMIN}="{ADMIN_PASSWORD}";'
    return {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": ",".join(_MODULES),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": users,
        "delegation.token.secret.key": "of all brokers",
        **certificates.broker(),
        **more,
    }


def client_settings(
    servers: str,
    certificates: Certificates,
    mechanism: str = "PLAIN",
    user: str = ADMIN,
    password: str = ADMIN_PASSWORD,
) -> dict[str, str]:
    """A client's, under Java's names; by default the administrator's."""
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_login(mechanism, user, password)};",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.path("ca"),
    }


def _login(mechanism: str, user: str, password: str) -> str:
    return f'{_MODULES[mechanism]} required username="{user}" password="{password}"'
