"""Changes are waited for on every broker, by what each broker answers."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tidelog.client.aio.admin import visibility
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.aio.admin.driver import Driver
from tidelog.client.aio.admin.types import (
    AlterOperation,
    ClientQuotaEntity,
    ConfigChange,
    ConfigResource,
    ResourceType,
    ScramCredentialDeletion,
    ScramCredentialUpsert,
)
from tidelog.client.aio.metadata import MetadataCache
from tidelog.client.aio.settings import load_settings
from tidelog.client.errors import BrokerUnavailable
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.security.acls import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import describe_acls as acls
from tidelog.wire.messages import describe_client_quotas as quotas
from tidelog.wire.messages import describe_configs as configs
from tidelog.wire.messages import describe_user_scram_credentials as scram
from tidelog.wire.messages.describe_acls import DescribeAclsResponse
from tidelog.wire.messages.describe_client_quotas import DescribeClientQuotasResponse
from tidelog.wire.messages.describe_configs import DescribeConfigsResponse
from tidelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsResponse
from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from tidelog.wire.schema import Message

ORDERS = ConfigResource(ResourceType.TOPIC, "orders")
BINDING = AclBinding(
    ResourcePattern(AclResourceType.TOPIC, "orders", PatternType.LITERAL),
    AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW),
)
ALICE = ClientQuotaEntity("alice", None, None)


class Brokers:
    """Two brokers. The first shows the change; the second answers `before` first, as often as `answers_late` says."""

    def __init__(self, before: Any, after: Any, answers_late: int) -> None:
        self.settings = load_settings(AdminSettings, None, {"bootstrap_servers": "h:1"})
        self.metadata = MetadataCache(max_age_ms=1)
        self.metadata.nodes = {each: BrokerNode(each, "h", each) for each in (1, 2)}
        self._before, self._after = before, after
        self._late = answers_late
        self.asked: list[int] = []

    async def send(self, node_id: int, _request: Message, _response: type[Message]) -> Any:
        self.asked.append(node_id)
        is_late = node_id == 2 and self.asked.count(2) <= self._late
        answer = self._before if is_late else self._after
        if isinstance(answer, Exception):
            raise answer
        return answer


def wait(brokers: Brokers, shows: visibility.Shows, timeout_ms: int = 60_000) -> list[int]:
    driver = Driver(brokers, 1000)  # type: ignore[arg-type]
    return asyncio.run(visibility.until_visible(driver, shows, timeout_ms))


def metadata(partitions: int, *, epoch: int = 1, leader: int = 1) -> MetadataResponse:
    topic = MetadataResponseTopic(name="orders", error_code=0 if partitions else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    topic.partitions = [
        MetadataResponsePartition(partition_index=each, leader_id=leader, leader_epoch=epoch)
        for each in range(partitions)
    ]
    return MetadataResponse(topics=[topic])


def setting(value: str, source: int) -> DescribeConfigsResponse:
    entry = configs.DescribeConfigsResourceResult(name="retention.ms", value=value, config_source=source)
    return DescribeConfigsResponse(
        results=[configs.DescribeConfigsResult(resource_type=2, resource_name="orders", configs=[entry])]
    )


def entries(*bindings: AclBinding) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        resources=[
            acls.DescribeAclsResource(
                resource_type=resource.type,
                resource_name=resource.name,
                pattern_type=resource.pattern,
                acls=[
                    acls.AclDescription(
                        principal=entry.principal,
                        host=entry.host,
                        operation=entry.operation,
                        permission_type=entry.permission,
                    )
                ],
            )
            for resource, entry in bindings
        ]
    )


def credentials(*mechanisms: int) -> DescribeUserScramCredentialsResponse:
    infos = [scram.CredentialInfo(mechanism=each, iterations=4096) for each in mechanisms]
    result = scram.DescribeUserScramCredentialsResult(
        user="alice", error_code=0 if infos else ErrorCode.RESOURCE_NOT_FOUND, credential_infos=infos
    )
    return DescribeUserScramCredentialsResponse(results=[result])


def limits(**values: float) -> DescribeClientQuotasResponse:
    entry = quotas.EntryData(
        entity=[quotas.EntityData(entity_type="user", entity_name="alice")],
        values=[quotas.ValueData(key=name, value=value) for name, value in values.items()],
    )
    return DescribeClientQuotasResponse(entries=[entry] if values else [])


def changed(value: str | None, operation: AlterOperation = AlterOperation.SET) -> visibility.Shows:
    return visibility.settings_changed(ORDERS, [ConfigChange("retention.ms", value, operation)])


CHANGES: dict[str, tuple[Callable[[], visibility.Shows], Any, Any]] = {
    "created": (lambda: visibility.topics_there({"orders": 1}), metadata(0), metadata(1)),
    "created, without a leader": (
        lambda: visibility.topics_there({"orders": 1}),
        metadata(1, leader=-1),
        metadata(1),
    ),
    "widened": (lambda: visibility.topics_there({"orders": 3}), metadata(1), metadata(3)),
    "deleted": (lambda: visibility.topics_gone(["orders"]), metadata(1), metadata(0)),
    "elected": (
        lambda: visibility.leaders_since({TopicPartition("orders", 0): 7}),
        metadata(1, epoch=6),
        metadata(1, epoch=7),
    ),
    "set": (lambda: changed("60000"), setting("1000", 1), setting("60000", 1)),
    "set to the default": (lambda: changed("60000"), setting("60000", 5), setting("60000", 1)),
    "set, in other words": (lambda: changed("0.50"), setting("1", 1), setting("0.5", 1)),
    "reset": (lambda: changed(None, AlterOperation.DELETE), setting("60000", 1), setting("60000", 5)),
    "appended": (lambda: changed("b", AlterOperation.APPEND), setting("a", 1), setting("a,b", 1)),
    "subtracted": (lambda: changed("b", AlterOperation.SUBTRACT), setting("a,b", 1), setting("a", 1)),
    "allowed": (lambda: visibility.acls_there([BINDING]), entries(), entries(BINDING)),
    "no longer allowed": (lambda: visibility.acls_gone([BINDING]), entries(BINDING), entries()),
    "user added": (
        lambda: visibility.credentials_changed([ScramCredentialUpsert("alice", "SCRAM-SHA-256", 4096, b"", b"")]),
        credentials(),
        credentials(1),
    ),
    "user deleted": (
        lambda: visibility.credentials_changed([ScramCredentialDeletion("alice", "SCRAM-SHA-256")]),
        credentials(1, 2),
        credentials(2),
    ),
    "limited": (
        lambda: visibility.quotas_changed({ALICE: {"producer_byte_rate": 5.0}}),
        limits(),
        limits(producer_byte_rate=5.0),
    ),
    "no longer limited": (
        lambda: visibility.quotas_changed({ALICE: {"producer_byte_rate": None}}),
        limits(producer_byte_rate=5.0),
        limits(),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_waited_for_until_the_last_broker_shows_it(name: str) -> None:
    make, before, after = CHANGES[name]
    brokers = Brokers(before, after, answers_late=2)
    assert wait(brokers, make()) == []
    assert brokers.asked.count(1) == 1, "the broker that shows it is not asked again"
    assert brokers.asked.count(2) == 3


def test_a_broker_that_never_shows_it_is_named_and_the_change_stands(caplog: pytest.LogCaptureFixture) -> None:
    make, before, after = CHANGES["created"]
    assert wait(Brokers(before, after, answers_late=1 << 30), make(), timeout_ms=30) == [2]
    assert "not visible on broker 2" in caplog.text


@pytest.mark.parametrize(
    "answer", [BrokerUnavailable("h:2", "refused", ""), metadata(0)], ids=["unreachable", "unauthorized"]
)
def test_a_broker_that_cannot_be_asked_is_not_waited_for(answer: Any) -> None:
    """A client that may create topics need not be allowed to describe them."""
    if isinstance(answer, MetadataResponse):
        answer.topics[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    brokers = Brokers(answer, metadata(1), answers_late=1)
    assert wait(brokers, visibility.topics_there({"orders": 1})) == []
    assert brokers.asked.count(2) == 1


def test_a_brokers_own_settings_are_looked_for_on_that_broker_only() -> None:
    assert visibility.brokers_with(ConfigResource(ResourceType.BROKER, "2")) == [2]
    assert visibility.brokers_with(ConfigResource(ResourceType.BROKER, "")) is None
    assert visibility.brokers_with(ORDERS) is None
    assert visibility.brokers_with(ConfigResource(ResourceType.BROKER_LOGGER, "2")) == []
