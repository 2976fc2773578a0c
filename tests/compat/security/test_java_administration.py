"""Kafka's own tools administer a secured broker over SASL_SSL: ACLs, users, quotas, certificates, delegation tokens."""

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import ProcessFailedError, run_tool
from tests.compat.security.conftest import Secured, secured_broker
from tests.compat.security.secured import PASSWORD, USER, jaas, java_settings, write_properties
from tidelog.client import Admin, AuthenticationFailed, NewTopic, Producer
from tidelog.client.errors import ClientError
from tidelog.wire.errors import ApiError

pytestmark = [pytest.mark.java, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 120)]

ACLS = "kafka.admin.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"
TOKENS = "org.apache.kafka.tools.DelegationTokenCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
ADMIN, ADMIN_PASSWORD = "admin", "admins"
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """With ACLs and delegation tokens. The plaintext listener is for the set-up."""
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    settings = {
        "broker.id": "0",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "delegation.token.secret.key": "of all brokers",
        "auto.create.topics.enable": "false",
    }
    users = {USER: PASSWORD, ADMIN: ADMIN_PASSWORD}
    with secured_broker(tmp_path_factory.mktemp("guarded"), users, **settings) as found:
        yield found


def login(guarded: Secured, user: str, password: str, **more: str) -> dict[str, str]:
    settings = java_settings(guarded.certificates, "SASL_SSL", "SCRAM-SHA-512")
    return {**settings, "sasl.jaas.config": jaas("SCRAM-SHA-512", user, password, **more)}


def ours(guarded: Secured, user: str = USER, password: str = PASSWORD, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": guarded.address("SASL_SSL"), **login(guarded, user, password, **more)}


@pytest.fixture
def tool(guarded: Secured, tmp_path: Path) -> Tool:
    """Runs one of Kafka's tools as the administrator, or as another user."""

    def run(main_class: str, *words: str, user: str = ADMIN, password: str = ADMIN_PASSWORD, **more: str) -> str:
        file = write_properties(tmp_path / "client.properties", login(guarded, user, password, **more))
        server = ("--bootstrap-server", guarded.address("SASL_SSL"), "--command-config", str(file))
        return run_tool(main_class, *server, *words)

    return run


def test_kafka_acls_gives_a_right(guarded: Secured, tool: Tool) -> None:
    tool(ACLS, "--add", "--allow-principal", f"User:{USER}", "--operation", "Create", "--topic", "made-")
    with Admin(ours(guarded)) as admin:
        admin.create_topics([NewTopic("made-")])


@pytest.mark.long
def test_kafka_acls_lists_denies_and_removes(guarded: Secured, tool: Tool) -> None:
    prefixed = ("--topic", "own-", "--resource-pattern-type", "prefixed")
    tool(ACLS, "--add", "--allow-principal", f"User:{USER}", "--producer", *prefixed)
    tool(ACLS, "--add", "--deny-principal", f"User:{USER}", "--deny-host", "10.0.0.1", "--operation", "All", *prefixed)
    listed = tool(ACLS, "--list", *prefixed)
    assert "ResourcePattern(resourceType=TOPIC, name=own-, patternType=PREFIXED)" in listed
    for expected in (
        "host=*, operation=WRITE, permissionType=ALLOW",
        "host=*, operation=DESCRIBE, permissionType=ALLOW",
        "host=*, operation=CREATE, permissionType=ALLOW",
        "host=10.0.0.1, operation=ALL, permissionType=DENY",
    ):
        assert f"(principal=User:{USER}, {expected})" in listed
    tool(TOPICS, "--create", "--topic", "own-orders", "--partitions", "1", user=USER, password=PASSWORD)
    with Producer(ours(guarded)) as producer:
        producer.send("own-orders", b"one").result(30)
    with pytest.raises(ProcessFailedError, match="Cluster authorization failed"):
        tool(ACLS, "--list", user=USER, password=PASSWORD)
    tool(ACLS, "--remove", "--force", *prefixed)
    assert "own-" not in tool(ACLS, "--list")
    with Producer(ours(guarded)) as producer, pytest.raises((ClientError, ApiError), match=r"(?i)author"):
        producer.send("own-orders", b"two").result(30)


@pytest.mark.long
def test_kafka_configs_changes_and_removes_a_user(guarded: Secured, tool: Tool) -> None:
    entity = ("--entity-type", "users", "--entity-name", "dora")
    tool(CONFIGS, "--alter", *entity, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=first]")
    described = tool(CONFIGS, "--describe", *entity)
    assert "SCRAM credential configs for user-principal 'dora' are SCRAM-SHA-512=iterations=8192" in described
    assert "first" not in described
    with Admin(ours(guarded, "dora", "first")) as admin:
        admin.list_topics()
    tool(CONFIGS, "--alter", *entity, "--add-config", "SCRAM-SHA-512=[password=second]")
    with pytest.raises(AuthenticationFailed):
        Admin(ours(guarded, "dora", "first"))
    with Admin(ours(guarded, "dora", "second")) as admin:
        admin.list_topics()
    tool(CONFIGS, "--alter", *entity, "--delete-config", "SCRAM-SHA-512")
    assert tool(CONFIGS, "--describe", *entity).strip() == ""
    with pytest.raises(AuthenticationFailed):
        Admin(ours(guarded, "dora", "second"))


@pytest.mark.long
def test_kafka_configs_sets_quotas(tool: Tool) -> None:
    entity = ("--entity-type", "users", "--entity-name", "eve", "--entity-type", "clients", "--entity-default")
    limits = "consumer_byte_rate=2048,request_percentage=150"
    tool(CONFIGS, "--alter", *entity, "--add-config", limits)
    described = tool(CONFIGS, "--describe", *entity)
    assert "Quota configs for user-principal 'eve', the default client-id are" in described
    assert "consumer_byte_rate=2048.0" in described
    assert "request_percentage=150.0" in described
    tool(CONFIGS, "--alter", *entity, "--delete-config", "consumer_byte_rate,request_percentage")
    assert "consumer_byte_rate" not in tool(CONFIGS, "--describe", *entity)


def serial_number(guarded: Secured) -> str:
    """Of the certificate that the listener shows to a new connection."""
    context = ssl.create_default_context(cafile=guarded.certificates.path("ca"))
    host, port = guarded.address("SASL_SSL").split(":")
    with (
        socket.create_connection((host, int(port)), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        shown = secure.getpeercert()
        assert shown is not None
        return str(shown["serialNumber"])


@pytest.mark.long
def test_kafka_configs_replaces_the_certificate_of_a_listener(guarded: Secured, tool: Tool) -> None:
    before = serial_number(guarded)
    broker = ("--entity-type", "brokers", "--entity-name", "0")
    setting = "listener.name.sasl_ssl.ssl.keystore.location"
    tool(CONFIGS, "--alter", *broker, "--add-config", f"{setting}={guarded.certificates.path('broker2')}")
    renewed = serial_number(guarded)
    assert renewed != before
    with pytest.raises(ProcessFailedError, match="keystore"):
        tool(CONFIGS, "--alter", *broker, "--add-config", f"{setting}={guarded.certificates.path('absent')}")
    assert serial_number(guarded) == renewed
    assert f"{setting}={guarded.certificates.path('broker2')}" in tool(CONFIGS, "--describe", *broker)
    tool(CONFIGS, "--alter", *broker, "--delete-config", setting)
    assert serial_number(guarded) == before


@pytest.mark.long
def test_kafka_delegation_tokens_makes_renews_and_ends_a_token(guarded: Secured, tool: Tool) -> None:
    alice = {"user": USER, "password": PASSWORD}
    made = tool(TOKENS, "--create", "--max-life-time-period", "-1", "--renewer-principal", f"User:{ADMIN}", **alice)
    found = re.search(r"([\w-]{22})\s+(\S{88})\s+User:alice", made)
    assert found is not None, made
    token_id, hmac = found.groups()
    assert token_id in tool(TOKENS, "--describe", "--owner-principal", f"User:{USER}", **alice)
    with Admin(ours(guarded, token_id, hmac, tokenauth="true")) as admin:
        admin.list_topics()
    # Kafka's own client logs in with it, and is refused to make another.
    with pytest.raises(ProcessFailedError, match=r"not allowed|NOT_ALLOWED"):
        tool(TOKENS, "--create", "--max-life-time-period", "-1", user=token_id, password=hmac, tokenauth="true")
    assert "expiry date" in tool(TOKENS, "--renew", "--renew-time-period", "3600000", "--hmac", hmac)
    tool(TOKENS, "--expire", "--expiry-time-period", "-1", "--hmac", hmac, **alice)
    assert token_id not in tool(TOKENS, "--describe", **alice)
    with pytest.raises(AuthenticationFailed):
        Admin(ours(guarded, token_id, hmac, tokenauth="true"))
