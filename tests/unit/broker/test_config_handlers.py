"""DescribeConfigs and AlterConfigs over a tree in memory. Codes and texts are what Apache Kafka 3.9.1 answered."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.broker.open_access import OPEN_TO_ALL
from tests.unit.steps import Pauses, served
from tidelog.broker.configuration.current import CurrentSettings
from tidelog.broker.configuration.entity_settings import EntitySettings
from tidelog.broker.configuration.settings import replication_quotas
from tidelog.broker.dynamic_config import follow_settings
from tidelog.broker.handlers import alter_configs, describe_configs, list_config_resources
from tidelog.broker.handlers._answers import REPEATS_MAX
from tidelog.broker.security.listener_security import ListenerSecurity
from tidelog.broker.serving.node import Node
from tidelog.config.layers import ConfigLayers
from tidelog.metadata.configs import AlterOperation, ConfigEntity, read_overrides
from tidelog.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.store import Watcher
from tidelog.testing.memory_store import MemoryStore
from tidelog.timing import ManualClock
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import alter_configs as replacing
from tidelog.wire.messages import incremental_alter_configs as incremental
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = AlterOperation
Answer = tuple[int, str | None]


class InlineQueue:
    """Carries out at once what a `StoreQueue` carries out on its thread."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store

    async def run(self, function: Any, *arguments: Any, **options: Any) -> Any:
        return function(self.store, *arguments, **options)

    def on_loop(self, watcher: Watcher) -> Watcher:
        return watcher


class FakeTopics:
    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.applied: list[str] = []

    async def apply_overrides(self, name: str, overrides: Mapping[str, str]) -> None:
        self.applied.append(name)
        self.image.set_overrides(name, overrides)

    async def apply_all_configs(self) -> None:
        self.applied.append("*")


class FakeNode(SimpleNamespace):
    """The parts that these handlers use."""

    config = Node.config
    config_layers = Node.config_layers


@pytest.fixture
def context() -> Any:
    store = MemoryStore()
    prepare_tree(store)
    image = ClusterImage("cluster")
    image.set_topic(TopicImage("t1", bytes(15) + b"1", [PartitionImage(0, 0, 0, (0,), (0,))]))
    layers = ConfigLayers({"log.retention.hours": "5"})
    limits: list[Any] = []
    node = FakeNode(
        broker_id=0,
        settings=CurrentSettings(layers),
        image=image,
        limits=limits,
        socket_server=SimpleNamespace(update_limits=limits.append),
        cleaning=SimpleNamespace(update_config=lambda _config: None),
        metadata=InlineQueue(store),
        topics=FakeTopics(image),
        clock=ManualClock(),
        replication_quotas=replication_quotas(0, layers.config),
        surroundings=SimpleNamespace(socket_descriptors_max=lambda: 1000),
        background=SimpleNamespace(run=run_inline),
        listener_security=ListenerSecurity(layers.config, ManualClock()),
        authentication=None,
        request_log=SimpleNamespace(refresh=lambda: None),
    )
    parts = SimpleNamespace(
        broker_id=0,
        settings=node.settings,
        metadata=node.metadata,
        base=SimpleNamespace(
            clock=node.clock, surroundings=node.surroundings, background=node.background, cleaning=node.cleaning
        ),
        network=node.socket_server,
        listener_security=node.listener_security,
        replication_quotas=node.replication_quotas,
        topics=node.topics,
    )
    topology = SimpleNamespace(follow_settings=lambda _config: None)
    node.entity_settings = EntitySettings(cast(Any, node.metadata))
    node.dynamic_config = follow_settings(
        cast(Any, parts), cast(Any, topology), cast(Any, None), None, node.entity_settings
    )
    node.dynamic_config.start(store)
    node.slices = Pauses()
    return SimpleNamespace(node=node, api_version=4, pause=node.slices.pause, **OPEN_TO_ALL)


async def run_inline(function: Callable[[], object]) -> object:
    return function()


def describe(
    context: Any, resource_type: int, name: str, keys: list[str] | None = None, **options: Any
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
    response = served(describe_configs.handle(DescribeConfigsRequest(resources=[resource], **options), context))
    for version in range(5):
        DescribeConfigsResponse.decode(response.encode(version), version)
    return response.results[0]


def alter(
    context: Any,
    resource_type: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
) -> Answer:
    configs = [
        incremental.AlterableConfig(name=setting, config_operation=operation, value=value)
        for setting, operation, value in changes
    ]
    resource = incremental.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    [response] = asyncio.run(alter_configs.handle_incremental(request, context)).responses
    assert (response.resource_type, response.resource_name) == (resource_type, name)
    return int(response.error_code), response.error_message


def replace(context: Any, resource_type: int, name: str, **options: Any) -> Answer:
    settings: dict[str, str | None] = options.pop("settings")
    configs = [replacing.AlterableConfig(name=key, value=value) for key, value in settings.items()]
    resource = replacing.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
    request = replacing.AlterConfigsRequest(resources=[resource], **options)
    [response] = asyncio.run(alter_configs.handle(request, context)).responses
    return int(response.error_code), response.error_message


def value_of(context: Any, resource_type: int, name: str, key: str) -> str | None:
    [entry] = describe(context, resource_type, name, [key]).configs
    return entry.value


def stored(context: Any, kind: str, name: str) -> dict[str, str]:
    return read_overrides(context.node.metadata.store, ConfigEntity(kind, name))


# --- describe ---


def test_a_topic_is_described_with_every_setting(context: Any) -> None:
    result = describe(context, TOPIC, "t1")
    assert (result.error_code, result.error_message, len(result.configs)) == (0, "", 39)
    assert all(entry.synonyms == [] and entry.documentation is None for entry in result.configs)


def test_synonyms_and_documentation_come_when_asked_for(context: Any) -> None:
    result = describe(context, TOPIC, "t1", ["segment.bytes"], include_synonyms=True, include_documentation=True)
    [entry] = result.configs
    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [("log.segment.bytes", "1073741824", 5)]
    assert entry.documentation
    assert (entry.config_type, entry.config_source, entry.is_default) == (3, 5, True)


def test_a_topics_override_is_shown_as_such(context: Any) -> None:
    alter(context, TOPIC, "t1", ("segment.bytes", SET, "1000"))
    [entry] = describe(context, TOPIC, "t1", ["segment.bytes"]).configs
    assert (entry.value, entry.config_source, entry.is_default) == ("1000", 1, False)


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "text"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "nope"),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
        (
            BROKER,
            "1",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 0 or empty string, but received 1",
        ),
        (BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (LOGGER, "1", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0 but received 1"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
        (GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (64, "x", ErrorCode.INVALID_REQUEST, "64"),
        (0, "x", ErrorCode.INVALID_REQUEST, "0"),
    ],
)
def test_what_cannot_be_described(context: Any, resource_type: int, name: str, code: ErrorCode, text: str) -> None:
    result = describe(context, resource_type, name)
    assert result.error_code == code
    assert text in (result.error_message or "")
    assert result.configs == []


def test_a_broker_is_described_by_itself(context: Any) -> None:
    assert len(describe(context, BROKER, "0").configs) > 230
    [entry] = describe(context, BROKER, "0", ["log.retention.hours"]).configs
    assert (entry.value, entry.config_source, entry.read_only) == ("5", 4, True)


def test_a_broker_without_a_name_is_the_cluster(context: Any) -> None:
    assert describe(context, BROKER, "").configs == []
    alter(context, BROKER, "", ("log.retention.ms", SET, "600000"))
    [entry] = describe(context, BROKER, "").configs
    assert (entry.name, entry.value, entry.config_source) == ("log.retention.ms", "600000", 3)


def test_resources_are_answered_in_request_order_each_for_itself(context: Any) -> None:
    names = ["t1", "nope", "t1"]
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["segment.ms"])
            for name in names
        ]
    )
    results = served(describe_configs.handle(request, context)).results
    assert [(result.resource_name, int(result.error_code)) for result in results] == [
        ("t1", 0),
        ("nope", 3),
        ("t1", 0),
    ]


# --- topics ---


def test_a_topics_logs_follow_a_change_at_once(context: Any) -> None:
    assert alter(context, TOPIC, "t1", ("retention.ms", SET, "5000")) == (0, None)
    assert stored(context, "topics", "t1") == {"retention.ms": "5000"}
    assert context.node.topics.applied == ["t1"]
    assert value_of(context, TOPIC, "t1", "retention.ms") == "5000"
    assert alter(context, TOPIC, "t1", ("retention.ms", DELETE, None)) == (0, None)
    assert value_of(context, TOPIC, "t1", "retention.ms") == "18000000"


def test_validate_only_leaves_no_trace(context: Any) -> None:
    assert alter(context, TOPIC, "t1", ("retention.ms", SET, "5000"), validate_only=True) == (0, None)
    assert replace(context, TOPIC, "t1", settings={"retention.ms": "7"}, validate_only=True) == (0, None)
    assert alter(context, BROKER, "0", ("log.retention.ms", SET, "5000"), validate_only=True) == (0, None)
    assert stored(context, "topics", "t1") == stored(context, "brokers", "0") == {}
    assert context.node.topics.applied == []
    assert context.node.config.log_retention_ms is None


def test_lists_are_appended_to_and_subtracted_from(context: Any) -> None:
    assert alter(context, TOPIC, "t1", ("cleanup.policy", APPEND, "compact")) == (0, None)
    assert value_of(context, TOPIC, "t1", "cleanup.policy") == "delete,compact"
    assert alter(context, TOPIC, "t1", ("cleanup.policy", SUBTRACT, "delete")) == (0, None)
    assert value_of(context, TOPIC, "t1", "cleanup.policy") == "compact"


RESOURCE_T1 = "Invalid config value for resource ConfigResource(type=TOPIC, name='t1'): "
INVALID_CONFIG, INVALID_REQUEST = int(ErrorCode.INVALID_CONFIG), int(ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ([("nope", SET, "5")], (INVALID_CONFIG, "Unknown topic config name: nope")),
        (
            [("retention.ms", SET, "abc")],
            (
                INVALID_CONFIG,
                RESOURCE_T1 + "Invalid value abc for configuration retention.ms: Not a number of type LONG",
            ),
        ),
        (
            [("min.compaction.lag.ms", SET, "777"), ("max.compaction.lag.ms", SET, "7")],
            (
                INVALID_CONFIG,
                "conflict topic config setting min.compaction.lag.ms (777) > max.compaction.lag.ms (7)",
            ),
        ),
        ([("retention.ms", SET, None)], (INVALID_REQUEST, "Null value not supported for : retention.ms")),
        (
            [("retention.ms", SET, None), ("segment.ms", APPEND, None)],
            (INVALID_REQUEST, "Null value not supported for : retention.ms, segment.ms"),
        ),
        (
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            (INVALID_REQUEST, "Error due to duplicate config keys"),
        ),
        (
            [("retention.ms", APPEND, "1")],
            (INVALID_CONFIG, "Config value append is not allowed for config key: retention.ms"),
        ),
        (
            [("retention.ms", SUBTRACT, "1")],
            (INVALID_CONFIG, "Config value subtract is not allowed for config key: retention.ms"),
        ),
    ],
)
def test_a_bad_change_of_a_topic_is_refused_and_leaves_no_trace(
    context: Any, changes: list[tuple[str, int, str | None]], answer: Answer
) -> None:
    assert alter(context, TOPIC, "t1", *changes) == answer
    assert stored(context, "topics", "t1") == {}
    assert context.node.topics.applied == []


def test_an_operation_that_does_not_exist_is_refused(context: Any) -> None:
    code, text = alter(context, TOPIC, "t1", ("retention.ms", 9, "1"))
    assert code == INVALID_REQUEST
    assert "9" in (text or "")


@pytest.mark.parametrize(
    ("resource_type", "name", "answer"),
    [
        (TOPIC, "nope", (int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), "The topic 'nope' does not exist.")),
        (TOPIC, "", (INVALID_REQUEST, "Default topic resources are not allowed.")),
        (BROKER, "1", (INVALID_REQUEST, "Unexpected broker id, expected 0, but received 1")),
        (BROKER, "x", (INVALID_REQUEST, "Node id must be an integer, but it is: x")),
        (64, "g", (INVALID_REQUEST, "Unknown resource type 64")),
        (GROUP, "", (INVALID_REQUEST, "Group name can't be empty")),
        (GROUP, "g", (INVALID_CONFIG, "Unknown group config name: retention.ms")),
        (CLIENT_METRICS, "", (INVALID_REQUEST, "Subscription name can't be empty")),
        (CLIENT_METRICS, "m", (INVALID_REQUEST, "Unknown client metrics configuration: retention.ms")),
    ],
)
def test_what_cannot_be_altered(context: Any, resource_type: int, name: str, answer: Answer) -> None:
    assert alter(context, resource_type, name, ("retention.ms", SET, "1")) == answer
    assert replace(context, resource_type, name, settings={"retention.ms": "1"}) == answer


def test_a_resource_that_is_named_twice_is_refused_both_times(context: Any) -> None:
    resources = [
        incremental.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[incremental.AlterableConfig(name="segment.ms", value="7")],
        )
        for name in ("t1", "t1", "nope")
    ]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources)
    responses = asyncio.run(alter_configs.handle_incremental(request, context)).responses
    twice = (INVALID_REQUEST, "Each resource must appear at most once.")
    assert [(int(each.error_code), each.error_message) for each in responses[:2]] == [twice, twice]
    assert responses[2].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_replacing_drops_what_is_not_named(context: Any) -> None:
    alter(context, TOPIC, "t1", ("segment.ms", SET, "7"), ("retention.ms", SET, "8"))
    assert replace(context, TOPIC, "t1", settings={"retention.ms": "9"}) == (0, None)
    assert stored(context, "topics", "t1") == {"retention.ms": "9"}


def test_replacing_is_checked_too(context: Any) -> None:
    assert replace(context, TOPIC, "t1", settings={"nope": "1"}) == (
        INVALID_CONFIG,
        "Unknown topic config name: nope",
    )
    assert replace(context, TOPIC, "t1", settings={"retention.ms": None}) == (
        INVALID_REQUEST,
        "Null value not supported for : retention.ms",
    )
    assert replace(context, LOGGER, "0", settings={"root": "INFO"}) == (INVALID_REQUEST, "Unknown resource type 8")


# --- groups and subscriptions ---


def test_a_groups_settings_are_stored_followed_and_described(context: Any) -> None:
    assert value_of(context, GROUP, "a/b", "consumer.heartbeat.interval.ms") == "5000"
    assert alter(context, GROUP, "a/b", ("consumer.heartbeat.interval.ms", SET, "6000")) == (0, None)
    assert context.node.entity_settings.overrides("groups", "a/b") == {"consumer.heartbeat.interval.ms": "6000"}
    options = {"include_synonyms": True}
    [entry] = describe(context, GROUP, "a/b", ["consumer.heartbeat.interval.ms"], **options).configs
    assert (entry.value, entry.config_source, entry.read_only) == ("6000", 8, False)
    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
        ("consumer.heartbeat.interval.ms", "6000", 8),
        ("group.consumer.heartbeat.interval.ms", "5000", 5),
    ]
    assert context.node.entity_settings.names("groups") == ["a/b"]
    assert alter(context, GROUP, "a/b", ("consumer.heartbeat.interval.ms", DELETE, None)) == (0, None)
    assert context.node.entity_settings.names("groups") == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("consumer.heartbeat.interval.ms", "4999", "must be greater than or equal to group.consumer.min.heartbeat"),
        ("consumer.heartbeat.interval.ms", "15001", "must be less than or equal to group.consumer.max.heartbeat"),
        ("consumer.session.timeout.ms", "44999", "must be greater than or equal to group.consumer.min.session"),
        ("consumer.session.timeout.ms", "60001", "must be less than or equal to group.consumer.max.session"),
        ("consumer.session.timeout.ms", "soon", "soon"),
        ("consumer.session.timeout.ms", "0", "at least 1"),
        ("share.record.lock.duration.ms", "14999", "must be greater than or equal to group.share.min.record.lock"),
        ("share.delivery.count.limit", "11", "must be less than or equal to group.share.max.delivery.count.limit"),
        ("share.auto.offset.reset", "by_duration:1h", "by_duration:PnDTnHnMn.nS"),
        ("share.isolation.level", "committed", "read_uncommitted, read_committed"),
        ("share.retry.delays", "10s,soon", "'soon' is not a delay"),
        ("share.retry.delays", "400d", "at most 366 days"),
    ],
)
def test_a_groups_settings_stay_within_the_brokers_bounds(context: Any, name: str, value: str, text: str) -> None:
    code, message = alter(context, GROUP, "g", (name, SET, value))
    assert code == INVALID_CONFIG
    assert text in (message or "")


def described(context: Any, name: str) -> dict[str, tuple[str | None, int]]:
    entries = describe(context, CLIENT_METRICS, name).configs
    return {entry.name: (entry.value, entry.config_source) for entry in entries}


def test_a_subscription_is_stored_followed_and_described(context: Any) -> None:
    changes = [("metrics", SET, "a.,b."), ("interval.ms", SET, "1000"), ("match", SET, "client_id=x.*")]
    assert alter(context, CLIENT_METRICS, "all", *changes) == (0, None)
    assert alter(context, CLIENT_METRICS, "all", ("metrics", APPEND, "c.")) == (0, None)
    found = {
        entry.name: (entry.value, entry.config_source) for entry in describe(context, CLIENT_METRICS, "all").configs
    }
    assert found == {"metrics": ("a.,b.,c.", 7), "interval.ms": ("1000", 7), "match": ("client_id=x.*", 7)}
    unset = {
        entry.name: (entry.value, entry.config_source) for entry in describe(context, CLIENT_METRICS, "no").configs
    }
    assert unset == {"metrics": ("", 5), "interval.ms": ("300000", 5), "match": ("", 5)}


@pytest.mark.parametrize(
    ("name", "value", "expected", "text"),
    [
        ("interval.ms", "99", INVALID_REQUEST, "at least 100"),
        ("interval.ms", "3600001", INVALID_REQUEST, "no more than 3600000"),
        ("interval.ms", "soon", INVALID_CONFIG, "soon"),
        ("match", "color=red", INVALID_CONFIG, "Illegal client matching pattern: color=red"),
        ("match", "client_id", INVALID_CONFIG, "Illegal client matching pattern: client_id"),
        ("match", "client_id=(", INVALID_CONFIG, "Illegal client matching pattern: client_id=("),
    ],
)
def test_a_subscription_that_cannot_be(context: Any, name: str, value: str, expected: int, text: str) -> None:
    code, message = alter(context, CLIENT_METRICS, "all", (name, SET, value))
    assert code == expected
    assert text in (message or "")


def test_what_has_settings_is_listed(context: Any) -> None:
    alter(context, GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "6000"))
    alter(context, CLIENT_METRICS, "all", ("metrics", SET, "*"))
    context.node.image.set_broker(BrokerImage(0, {}))

    def listed(version: int, *types: int) -> list[tuple[int, str]]:
        context.api_version = version
        request = ListConfigResourcesRequest(resource_types=list(types))
        found = asyncio.run(list_config_resources.handle(request, context)).config_resources
        return [(each.resource_type, each.resource_name) for each in found]

    assert listed(0) == [(CLIENT_METRICS, "all")]
    assert listed(1) == [(GROUP, "g"), (CLIENT_METRICS, "all"), (LOGGER, "0"), (BROKER, "0"), (TOPIC, "t1")]
    assert listed(1, GROUP, TOPIC) == [(GROUP, "g"), (TOPIC, "t1")]
    with pytest.raises(ApiError) as refused:
        listed(1, GROUP, 3)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


# --- brokers ---


def test_a_broker_and_its_logs_follow_a_change_at_once(context: Any) -> None:
    assert alter(context, BROKER, "", ("log.retention.ms", SET, "600000")) == (0, None)
    assert alter(context, BROKER, "0", ("log.retention.ms", SET, "700000")) == (0, None)
    assert context.node.config.log_retention_ms == 700000
    assert context.node.topics.applied == ["*", "*"]
    assert stored(context, "brokers", "<default>") == {"log.retention.ms": "600000"}
    assert stored(context, "brokers", "0") == {"log.retention.ms": "700000"}


def test_throttles_of_replication_follow_and_end(context: Any) -> None:
    quotas = context.node.replication_quotas
    assert alter(context, BROKER, "", ("leader.replication.throttled.rate", SET, "1000")) == (0, None)
    assert alter(context, BROKER, "0", ("follower.replication.throttled.rate", SET, "2000")) == (0, None)
    assert [quota.is_limited for quota in quotas] == [True, True, False]
    assert alter(context, BROKER, "0", ("follower.replication.throttled.rate", DELETE, None)) == (0, None)
    assert [quota.is_limited for quota in quotas] == [True, False, False]


def test_limits_of_the_network_follow_and_logs_are_left_alone(context: Any) -> None:
    assert alter(context, BROKER, "0", ("max.connections", SET, "7")) == (0, None)
    assert [each.connections_max for each in context.node.limits] == [7]
    assert context.node.topics.applied == []


@pytest.mark.parametrize(
    ("name", "change", "answer"),
    [
        (
            "0",
            ("num.partitions", "4"),
            (INVALID_REQUEST, "Cannot update these configs dynamically: Set(num.partitions)"),
        ),
        (
            "0",
            ("message.max.bytes", "-4"),
            (INVALID_REQUEST, "Invalid value -4 for configuration message.max.bytes: Value must be at least 0"),
        ),
        (
            "",
            ("ssl.client.auth", "required"),
            (
                INVALID_REQUEST,
                (
                    "Cannot update these configs at default cluster level, broker id must be specified: "
                    "Set(ssl.client.auth)"
                ),
            ),
        ),
    ],
)
def test_a_bad_change_of_a_broker_is_refused_and_leaves_no_trace(
    context: Any, name: str, change: tuple[str, str], answer: Answer
) -> None:
    setting, value = change
    before = context.node.config
    assert alter(context, BROKER, name, (setting, SET, value)) == answer
    assert replace(context, BROKER, name, settings={setting: value}) == answer
    assert context.node.config is before
    assert stored(context, "brokers", name or "<default>") == {}


# --- loggers ---


@pytest.fixture
def a_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("tidelog.test.config_handlers")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_loggers_are_described_with_kafkas_words(context: Any, a_logger: logging.Logger) -> None:
    a_logger.setLevel(logging.WARNING)
    entries = {entry.name: entry for entry in describe(context, LOGGER, "0").configs}
    assert "root" in entries
    entry = entries[a_logger.name]
    assert (entry.value, entry.config_source, entry.read_only, entry.synonyms) == ("WARN", 6, False, [])
    [entry] = describe(context, LOGGER, "0", [a_logger.name, "nope"]).configs
    assert entry.name == a_logger.name


def test_a_loggers_level_is_set_and_given_back(context: Any, a_logger: logging.Logger) -> None:
    assert alter(context, LOGGER, "0", (a_logger.name, SET, "TRACE")) == (0, None)
    assert a_logger.level == 5
    assert value_of(context, LOGGER, "0", a_logger.name) == "TRACE"
    assert alter(context, LOGGER, "0", (a_logger.name, SET, "FATAL"), validate_only=True) == (0, None)
    assert a_logger.level == 5
    assert alter(context, LOGGER, "0", (a_logger.name, DELETE, None)) == (0, None)
    assert a_logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("0", ("tidelog.no.such.logger", SET, "INFO"), INVALID_CONFIG),
        ("0", ("root", SET, "LOUD"), INVALID_CONFIG),
        ("0", ("root", DELETE, ""), INVALID_REQUEST),
        ("0", ("root", APPEND, "INFO"), INVALID_REQUEST),
        ("0", ("root", 9, "INFO"), INVALID_REQUEST),
        ("1", ("root", SET, "INFO"), INVALID_REQUEST),
        ("", ("root", SET, "INFO"), INVALID_REQUEST),
    ],
)
def test_a_bad_change_of_a_logger_is_refused(context: Any, name: str, change: tuple[str, int, str], code: int) -> None:
    level = logging.root.level
    assert alter(context, LOGGER, name, change)[0] == code
    assert logging.root.level == level


# --- bounds ---


def test_a_topic_that_is_named_again_and_again_is_described_a_few_times(context: Any) -> None:
    """Fifty thousand descriptions of one topic took 24 seconds and 3.5 GB."""
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name="t1", configuration_keys=None)
    other = DescribeConfigsResource(resource_type=TOPIC, resource_name="t1", configuration_keys=["retention.ms"])
    request = DescribeConfigsRequest(resources=[resource] * 500 + [other] * 500)
    response = served(describe_configs.handle(request, context))
    assert [len(result.configs) for result in response.results] == [39] * (1 + REPEATS_MAX) + [1]
    assert context.node.slices.count == 1000


def test_settings_that_topics_have_in_common_are_held_once(context: Any) -> None:
    context.node.image.set_topic(TopicImage("t2", bytes(15) + b"2", [PartitionImage(0, 0, 0, (0,), (0,))]))
    alter(context, TOPIC, "t2", ("retention.ms", SET, "7"))
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
        for name in ("t1", "t2")
    ]
    first, second = served(describe_configs.handle(DescribeConfigsRequest(resources=resources), context)).results
    differing = [one.name for one, two in zip(first.configs, second.configs, strict=True) if one is not two]
    assert differing == ["retention.ms"]


def test_an_error_that_quotes_a_long_value_is_cut(context: Any) -> None:
    code, message = alter(context, TOPIC, "t1", ("retention.ms", SET, "x" * 32_767))
    assert code == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert len(message) < 1_100


def test_more_settings_than_a_resource_has_are_refused_unread(context: Any) -> None:
    changes = [(f"setting.{number}", int(SET), "1") for number in range(1_001)]
    code, message = alter(context, TOPIC, "t1", *changes)
    assert (code, message) == (
        ErrorCode.INVALID_REQUEST,
        "1001 settings of one resource; a request may alter 1000 of each",
    )


def test_a_value_that_grows_beyond_a_string_is_refused(context: Any) -> None:
    """Appending makes a list longer than any single request could say, and DescribeConfigs could not write it."""
    setting = "leader.replication.throttled.replicas"
    entries = ",".join(f"{number}:0" for number in range(4_000))
    assert alter(context, TOPIC, "t1", (setting, APPEND, entries))[0] == ErrorCode.NONE
    more = ",".join(f"{number}:1" for number in range(4_000))
    code, message = alter(context, TOPIC, "t1", (setting, APPEND, more))
    assert code == ErrorCode.INVALID_CONFIG
    assert message is not None
    assert "32767" in message
    assert value_of(context, TOPIC, "t1", setting) == entries


def test_a_listener_that_cannot_be_secured_as_its_settings_say_stays_as_it_was(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Settings may be written to the tree by others, who do not check them; the rest of a change is still followed."""
    listener = {"listeners": "SASL_PLAINTEXT://127.0.0.1:1", "security.inter.broker.protocol": "SASL_PLAINTEXT"}
    login = "x.ScramLoginModule required username=a password=b;"
    settings = {
        **listener,
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": login,
    }
    before = ConfigLayers(settings)
    security = ListenerSecurity(before.config, ManualClock())
    authentication: Any = SimpleNamespace(listeners=security.sasl_listeners(before.config))
    server: Any = SimpleNamespace(update_tls=None)
    security.read(before.with_broker({"sasl.enabled.mechanisms": "DIGEST-MD5"}).config)
    security.apply(server, authentication)
    assert list(authentication.listeners["SASL_PLAINTEXT"].mechanisms) == ["SCRAM-SHA-256"]
    assert "the security of listeners stays as it was: sasl.enabled.mechanisms: DIGEST-MD5" in caplog.text
    security.read(before.with_broker({"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}).config)
    security.apply(server, authentication)
    assert list(authentication.listeners["SASL_PLAINTEXT"].mechanisms) == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
