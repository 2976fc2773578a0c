"""Three brokers that speak SCRAM over SASL_SSL to each other, all ours or one of them Apache Kafka, on one ZooKeeper:
brokers are killed and restarted; users, ACLs and tokens are changed at one of them and hold at all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from benchmarks import apache_kafka
from benchmarks.apache_kafka import KafkaBroker
from benchmarks.processes import BrokerProcess, free_port
from benchmarks.tidelog_broker import TidelogBroker
from tests.compat.security.secured import jaas, java_settings
from tests.integration.certificates import Certificates, make_certificates
from tests.integration.zookeeper_support import needs_zookeeper
from tidelog.cli._user_tree import store_in_tree
from tidelog.client import Admin, AuthenticationFailed, Consumer, NewTopic, Producer, TopicPartition
from tidelog.client.aio.admin.types import ScramCredentialUpsert
from tidelog.client.errors import ClientError
from tidelog.security.acls import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from tidelog.security.scram import make_credential, salted_password
from tidelog.testing.zookeeper import HOST, ZooKeeperServer
from tidelog.wire.errors import ApiError

pytestmark = [pytest.mark.long, needs_zookeeper, pytest.mark.timeout(300)]

KAFKA, OURS = "kafka", "ours"
MECHANISM, LISTENER = "SCRAM-SHA-512", "SASL_SSL"
ADMIN, ADMIN_PASSWORD = "admin", "admins"
SECONDS = 60.0
SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": f"User:{ADMIN}",
    "inter.broker.listener.name": LISTENER,
    "sasl.enabled.mechanisms": MECHANISM,
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": jaas(MECHANISM, ADMIN, ADMIN_PASSWORD),
    "delegation.token.secret.key": "of all brokers",
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "30000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}


class SecuredCluster:
    """Brokers 1 to 3. The plaintext listeners say whether a broker serves; a stranger may do nothing there."""

    def __init__(self, home: Path, zookeeper: ZooKeeperServer, kinds: Mapping[int, str]) -> None:
        self.certificates: Certificates = make_certificates(home)
        self._ports = {broker: free_port() for broker in kinds}
        self._settings = {**SETTINGS, **self.certificates.broker(), "zookeeper.connect": zookeeper.connect_string}
        properties = home / "server.properties"
        properties.write_text(f"zookeeper.connect={zookeeper.connect_string}\nlog.dirs={home}/none\n")
        salted = salted_password(MECHANISM, ADMIN_PASSWORD, b"salt of admin", 4096)
        credential = str(make_credential(MECHANISM, salted, b"salt of admin", 4096))
        store_in_tree(properties, ADMIN, [(MECHANISM, credential)])
        self.brokers = {broker: self._new(home, zookeeper, broker, kind) for broker, kind in kinds.items()}

    def _new(self, home: Path, zookeeper: ZooKeeperServer, broker: int, kind: str) -> BrokerProcess:
        port = free_port()
        listeners = f"PLAINTEXT://{HOST}:{port},{LISTENER}://{HOST}:{self._ports[broker]}"
        settings = {**self._settings, "broker.id": str(broker), "listeners": listeners}
        directory = home / f"broker-{broker}"
        is_kafka = kind == KAFKA
        process = KafkaBroker(directory, zookeeper, settings) if is_kafka else TidelogBroker(directory, settings)
        process.port = port
        return process

    def __enter__(self) -> Self:
        for broker in self.brokers.values():
            broker.spawn()
        for broker in self.brokers.values():
            broker.wait_until_serves()
        self.wait_until(lambda: len(self.admin().describe_cluster().nodes) == len(self.brokers), "all are registered")
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def client(self, user: str, password: str, broker: int | None = None, **more: str) -> dict[str, str]:
        """Settings of a client; `broker` is the only one it knows at first."""
        ports = self._ports.values() if broker is None else [self._ports[broker]]
        settings = java_settings(self.certificates, LISTENER, MECHANISM)
        login = {"sasl.jaas.config": jaas(MECHANISM, user, password, **more)}
        return {"bootstrap.servers": ",".join(f"{HOST}:{port}" for port in ports), **settings, **login}

    @contextlib.contextmanager
    def _connected(self, broker: int | None) -> Iterator[Admin]:
        with Admin(self.client(ADMIN, ADMIN_PASSWORD, broker)) as admin:
            yield admin

    def admin(self, broker: int | None = None) -> Any:
        """Calls of an administrator, a connection each."""
        cluster = self

        class _Calls:
            def __getattr__(self, name: str) -> Callable[..., Any]:
                def call(*arguments: Any, **keywords: Any) -> Any:
                    with cluster._connected(broker) as admin:
                        return getattr(admin, name)(*arguments, **keywords)

                return call

        return _Calls()

    def set_password(self, user: str, password: str, broker: int) -> None:
        salt = f"salt of {password}".encode()
        salted = salted_password(MECHANISM, password, salt, 4096)
        self.admin(broker).alter_user_scram_credentials([ScramCredentialUpsert(user, MECHANISM, 4096, salt, salted)])

    def logs_in(self, user: str, password: str, broker: int, **more: str) -> bool:
        try:
            with Admin(self.client(user, password, broker, **more)) as admin:
                admin.list_topics()
        except AuthenticationFailed:
            return False
        return True

    def may_write(self, user: str, password: str, broker: int) -> bool:
        """Whether a user may write to the partition whose preferred leader is this broker."""
        refused = False
        with Producer(self.client(user, password)) as producer:
            try:
                producer.send("orders", b"a", partition=broker - 1).result(SECONDS)
            except (ApiError, ClientError) as error:
                refused = "uthori" in str(error)
                if not refused:
                    raise
        return not refused

    def is_in_sync(self) -> bool:
        partitions = self.admin().describe_topics(["orders"])["orders"].partitions
        return all(len(each.in_sync) == 3 for each in partitions)

    def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(ClientError, ApiError):
                if is_true():
                    return
            assert time.monotonic() < deadline, what
            time.sleep(0.1)


def write_and_read(cluster: SecuredCluster, expected: int) -> int:
    """Add records to every partition with acks from all, and read everything; the number that is there."""
    login = cluster.client("alice", "second")
    with Producer({**login, "acks": "all"}) as producer:
        for sent in [producer.send("orders", b"x", partition=index % 3) for index in range(30)]:
            sent.result(SECONDS)
    found = 0
    with Consumer({**login, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition("orders", each) for each in range(3)])
        deadline = time.monotonic() + SECONDS
        while found < expected + 30 and time.monotonic() < deadline:
            found += len(consumer.poll(0.5))
    return found


@pytest.mark.parametrize(
    "kinds",
    [{1: OURS, 2: OURS, 3: OURS}, pytest.param({1: KAFKA, 2: OURS, 3: OURS}, marks=pytest.mark.java)],
    ids=["ours", "with Apache Kafka"],
)
def test_users_rights_and_tokens_hold_on_every_broker_and_brokers_come_back(
    tmp_path: Path, kinds: Mapping[int, str]
) -> None:
    if KAFKA in kinds.values() and (reason := apache_kafka.unavailable_reason()) is not None:
        pytest.skip(reason)
    with ZooKeeperServer() as zookeeper, SecuredCluster(tmp_path, zookeeper, kinds) as cluster:
        cluster.admin().create_topics([NewTopic("orders", assignment=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])])
        cluster.wait_until(cluster.is_in_sync, "replicas follow over SASL_SSL")

        for broker, password in ((1, "first"), (2, "second")):
            cluster.set_password("alice", password, broker)
            for each in kinds:
                cluster.wait_until(lambda: cluster.logs_in("alice", password, each), f"{password} at {each}")  # noqa: B023
        assert not any(cluster.logs_in("alice", "first", each) for each in kinds)

        assert not any(cluster.may_write("alice", "second", each) for each in kinds)
        orders = ResourcePattern(AclResourceType.TOPIC, "orders", PatternType.LITERAL)
        entry = AccessControlEntry("User:alice", "*", AclOperation.ALL, AclPermissionType.ALLOW)
        cluster.admin(3).create_acls([AclBinding(orders, entry)])
        for each in kinds:
            cluster.wait_until(lambda: cluster.may_write("alice", "second", each), f"she may write at {each}")  # noqa: B023

        with Admin(cluster.client("alice", "second", 2)) as alice:
            token = alice.create_delegation_token()
        for each in kinds:
            cluster.wait_until(
                lambda: cluster.logs_in(token.token_id, token.hmac, each, tokenauth="true"),  # noqa: B023
                f"a token of broker 2 at {each}",
            )

        count = len(kinds)
        for broker, process in cluster.brokers.items():
            process.kill()
            count = write_and_read(cluster, count)
            process.start()
            cluster.wait_until(cluster.is_in_sync, f"broker {broker} is back")
        # The user of the brokers themselves gets another salt: they log in again with the same password.
        cluster.set_password(ADMIN, ADMIN_PASSWORD, 3)
        cluster.brokers[3].kill()
        cluster.brokers[3].start()
        cluster.wait_until(cluster.is_in_sync, "broker 3 is back")
        assert write_and_read(cluster, count) == count + 30 == len(kinds) + 120

        cluster.admin(1).delete_acls([AclBindingFilter()])
        for each in kinds:
            cluster.wait_until(lambda: not cluster.may_write("alice", "second", each), f"not any more at {each}")  # noqa: B023
