"""Settings described and changed by admin clients, and changes that take effect."""

import asyncio
import os
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioResourceType
from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, ResourceType
from kafka.admin import ConfigResource as KafkaPythonResource
from kafka.admin import ConfigResourceType as KafkaPythonType

from tests.compat.clients.admins import confluent_admin, kafka_python_admin
from tests.compat.clients.brokers import Broker
from tests.compat.clients.drivers import DRIVERS, Driver, Message, Refused
from tests.compat.clients.drivers.types import DEADLINE_S
from tests.compat.clients.raw import RawConnection
from tests.compat.clients.waiting import wait_until
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_configs import AlterableConfig as ReplacingConfig
from tidelog.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from tidelog.wire.messages.alter_configs import AlterConfigsResource as ReplacingResource
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

LIBRDKAFKA = DRIVERS[0]
TOPIC, BROKER = 2, 4
WEEK_MS = str(7 * 86_400_000)
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(scope="module")
def broker_config() -> dict[str, object]:
    return {"broker.id": 5, "message.max.bytes": 800_000}


def described(servers: str, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    admin = confluent_admin(servers)
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return future.result(DEADLINE_S)


def alter(servers: str, kind: ResourceType, name: str, changes: dict[str, str | None]) -> int:
    """Set what has a value, delete what has none; the error code."""
    entries = [
        ConfigEntry(
            setting,
            value,
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for setting, value in changes.items()
    ]
    admin = confluent_admin(servers)
    (future,) = admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values()
    try:
        future.result(DEADLINE_S)
    except KafkaException as error:
        return error.args[0].code()
    return 0


def test_every_topic_setting_is_described_with_its_source(broker: Broker, servers: str, topic_name: str) -> None:
    broker.create_topic(topic_name, config={"segment.bytes": 1 << 20})
    entries = described(servers, ResourceType.TOPIC, topic_name)
    assert len(entries) > 25
    segment = entries["segment.bytes"]
    assert (segment.value, segment.source) == (str(1 << 20), ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert not segment.is_default
    assert not segment.is_read_only
    limit = entries["max.message.bytes"]
    assert (limit.value, limit.source) == ("800000", ConfigSource.STATIC_BROKER_CONFIG.value)
    assert list(limit.synonyms) == ["message.max.bytes"]
    assert entries["cleanup.policy"].value == "delete"
    assert entries["cleanup.policy"].is_default


def test_every_broker_setting_is_described_with_its_source(servers: str) -> None:
    entries = described(servers, ResourceType.BROKER, "5")
    assert len(entries) > 150
    assert (entries["broker.id"].value, entries["broker.id"].is_read_only) == ("5", True)
    assert entries["message.max.bytes"].source == ConfigSource.STATIC_BROKER_CONFIG.value
    assert entries["num.io.threads"].source == ConfigSource.DEFAULT_CONFIG.value
    assert all(entry.value is None for entry in entries.values() if entry.is_sensitive)


@pytest.mark.parametrize("name", ["6", "five"])
def test_other_brokers_are_not_described_here(name: str, broker: Broker) -> None:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=name, configuration_keys=None)
    with RawConnection(broker) as connection:
        (result,) = connection.call(DescribeConfigsRequest(resources=[resource]), 4, DescribeConfigsResponse).results
    assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_describe_configs(version: int, broker: Broker, topic: str) -> None:
    """Types and documentation came with version 3; a list of names restricts the answer, lists are never null."""
    resources = [
        DescribeConfigsResource(
            resource_type=TOPIC, resource_name=topic, configuration_keys=["max.message.bytes", "nope"]
        ),
        DescribeConfigsResource(resource_type=TOPIC, resource_name="missing", configuration_keys=None),
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True, include_documentation=True)
    with RawConnection(broker) as connection:
        found, missing = connection.call(request, version, DescribeConfigsResponse).results
    (entry,) = found.configs
    assert (entry.name, entry.value) == ("max.message.bytes", "800000")
    if version >= 1:
        synonyms = [(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]
        assert synonyms == [("message.max.bytes", "800000", 4), ("message.max.bytes", "1048588", 5)]
    if version >= 3:
        assert entry.config_type == 3
        assert entry.documentation
    assert (missing.error_code, missing.configs) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])


def test_a_kind_of_resource_that_does_not_exist_is_refused(broker: Broker) -> None:
    resource = DescribeConfigsResource(resource_type=77, resource_name="x", configuration_keys=None)
    with RawConnection(broker) as connection:
        (result,) = connection.call(DescribeConfigsRequest(resources=[resource]), 4, DescribeConfigsResponse).results
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_settings_are_changed_one_by_one(servers: str, topic: str) -> None:
    assert alter(servers, ResourceType.TOPIC, topic, {"retention.ms": "1000", "segment.bytes": "2000000"}) == 0
    assert alter(servers, ResourceType.TOPIC, topic, {"retention.ms": None}) == 0
    entries = described(servers, ResourceType.TOPIC, topic)
    assert entries["retention.ms"].value == WEEK_MS
    assert entries["segment.bytes"].value == "2000000"


def test_lists_are_added_to_and_taken_from(broker: Broker, servers: str, topic: str) -> None:
    def change(operation: int, value: str) -> int:
        config = AlterableConfig(name="cleanup.policy", config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[config])
        with RawConnection(broker) as connection:
            request = IncrementalAlterConfigsRequest(resources=[resource])
            return connection.call(request, 1, IncrementalAlterConfigsResponse).responses[0].error_code

    assert change(APPEND, "compact") == 0
    assert described(servers, ResourceType.TOPIC, topic)["cleanup.policy"].value == "delete,compact"
    assert change(SUBTRACT, "delete") == 0
    assert described(servers, ResourceType.TOPIC, topic)["cleanup.policy"].value == "compact"
    assert change(APPEND, "sometimes") == ErrorCode.INVALID_CONFIG


def test_settings_are_replaced_as_a_whole(broker: Broker, servers: str, topic: str) -> None:
    """AlterConfigs, the older of the two: what is not named falls back to its default."""

    def replace(configs: dict[str, str | None], *, validate_only: bool = False) -> int:
        resource = ReplacingResource(
            resource_type=TOPIC,
            resource_name=topic,
            configs=[ReplacingConfig(name=name, value=value) for name, value in configs.items()],
        )
        with RawConnection(broker) as connection:
            request = AlterConfigsRequest(resources=[resource], validate_only=validate_only)
            return connection.call(request, 2, AlterConfigsResponse).responses[0].error_code

    assert replace({"retention.ms": "1000", "segment.bytes": "2000000"}) == 0
    assert replace({"retention.ms": "2000"}, validate_only=True) == 0
    assert described(servers, ResourceType.TOPIC, topic)["retention.ms"].value == "1000"
    assert replace({"retention.ms": "2000"}) == 0
    entries = described(servers, ResourceType.TOPIC, topic)
    assert (entries["retention.ms"].value, entries["segment.bytes"].value) == ("2000", str(1 << 30))
    assert replace({"retention.ms": None}) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "changes", "code"),
    [
        (None, {"no.such.setting": "1"}, ErrorCode.INVALID_CONFIG),
        (None, {"retention.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        (None, {"segment.bytes": "-4"}, ErrorCode.INVALID_CONFIG),
        ("missing", {"retention.ms": "1000"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_wrong_settings_are_refused(
    name: str | None, changes: dict[str, str | None], code: ErrorCode, servers: str, topic: str
) -> None:
    assert alter(servers, ResourceType.TOPIC, name or topic, changes) == code
    assert described(servers, ResourceType.TOPIC, topic)["retention.ms"].value == WEEK_MS


def test_a_new_limit_holds_at_once(client: Driver, servers: str, topic: str) -> None:
    client.produce(servers, topic, [Message(os.urandom(50_000))])
    assert alter(servers, ResourceType.TOPIC, topic, {"max.message.bytes": "10000"}) == 0
    with pytest.raises(Refused) as refused:
        client.produce(servers, topic, [Message(os.urandom(50_000))])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert alter(servers, ResourceType.TOPIC, topic, {"max.message.bytes": None}) == 0
    client.produce(servers, topic, [Message(os.urandom(50_000))])


def test_a_broker_setting_changes_its_topics(servers: str, topic: str) -> None:
    """`message.max.bytes` of the broker is the default of every topic that has none of its own."""

    def limit() -> tuple[str | None, Any]:
        entry = described(servers, ResourceType.TOPIC, topic)["max.message.bytes"]
        return entry.value, entry.source

    try:
        assert alter(servers, ResourceType.BROKER, "5", {"message.max.bytes": "10000"}) == 0
        lowered = ("10000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
        assert wait_until(limit, lambda found: found == lowered) == lowered
        with pytest.raises(Refused) as refused:
            LIBRDKAFKA.produce(servers, topic, [Message(os.urandom(50_000))])
        assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    finally:
        assert alter(servers, ResourceType.BROKER, "5", {"message.max.bytes": None}) == 0
    before = ("800000", ConfigSource.STATIC_BROKER_CONFIG.value)
    assert wait_until(limit, lambda found: found == before) == before
    LIBRDKAFKA.produce(servers, topic, [Message(os.urandom(50_000))])


def test_a_default_for_all_brokers_is_described_as_such(broker: Broker, servers: str) -> None:
    """The empty name stands for all brokers; librdkafka does not let a program say it."""

    def change(operation: int, value: str | None) -> int:
        config = AlterableConfig(name="log.cleaner.backoff.ms", config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[config])
        with RawConnection(broker) as connection:
            request = IncrementalAlterConfigsRequest(resources=[resource])
            return connection.call(request, 1, IncrementalAlterConfigsResponse).responses[0].error_code

    def setting() -> tuple[str | None, Any]:
        entry = described(servers, ResourceType.BROKER, "5")["log.cleaner.backoff.ms"]
        return entry.value, entry.source

    assert change(SET, "12345") == 0
    changed = ("12345", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value)
    assert wait_until(setting, lambda found: found == changed) == changed
    assert change(DELETE, None) == 0
    default = ("15000", ConfigSource.DEFAULT_CONFIG.value)
    assert wait_until(setting, lambda found: found == default) == default


def test_a_setting_that_needs_a_restart_is_refused(servers: str) -> None:
    assert alter(servers, ResourceType.BROKER, "5", {"log.dirs": "/elsewhere"}) == ErrorCode.INVALID_REQUEST


def test_settings_survive_a_restart(topic_name: str) -> None:
    with Broker({"broker.id": 5}) as broker:
        broker.create_topic(topic_name, config={"retention.ms": 1000})
        servers = broker.bootstrap_servers
        assert alter(servers, ResourceType.TOPIC, topic_name, {"max.message.bytes": "10000"}) == 0
        assert alter(servers, ResourceType.BROKER, "5", {"log.retention.ms": "7777"}) == 0
        broker.restart()
        entries = described(servers, ResourceType.TOPIC, topic_name)
        assert (entries["retention.ms"].value, entries["max.message.bytes"].value) == ("1000", "10000")
        assert described(servers, ResourceType.BROKER, "5")["log.retention.ms"].value == "7777"
        with pytest.raises(Refused):
            LIBRDKAFKA.produce(servers, topic_name, [Message(os.urandom(50_000))])


def test_kafka_python_describes_and_alters(servers: str, topic: str) -> None:
    with kafka_python_admin(servers) as admin:
        admin.alter_configs([KafkaPythonResource(KafkaPythonType.TOPIC, topic, {"retention.ms": "4000"})])
        resource = KafkaPythonResource(KafkaPythonType.TOPIC, topic)
        found = admin.describe_configs([resource], config_filter="all")
    assert "4000" in str(found)
    assert described(servers, ResourceType.TOPIC, topic)["retention.ms"].value == "4000"


def test_aiokafka_describes_and_alters(servers: str, topic: str) -> None:
    async def run() -> str:
        admin = AIOKafkaAdminClient(bootstrap_servers=servers)
        await admin.start()
        try:
            changed = AioConfigResource(AioResourceType.TOPIC, topic, configs={"retention.ms": "5000"})
            await admin.alter_configs([changed])
            return str(await admin.describe_configs([AioConfigResource(AioResourceType.TOPIC, topic)]))
        finally:
            await admin.close()

    assert "5000" in asyncio.run(run())
