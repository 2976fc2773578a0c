"""What administrators are answered about settings, quotas and ACLs: as by two brokers of Apache Kafka.

Settings and entities that Kafka keeps in hash maps come in an order that means nothing; they are compared sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pytest

from tests.compat.apache_kafka.pairs import SECONDS, Pair, pairs
from tests.compat.chaos.cluster import wait_until
from tests.integration.raw_client import RawClient
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import (
    alter_client_quotas,
    alter_configs,
    create_acls,
    create_topics,
    delete_topics,
    describe_client_quotas,
    describe_configs,
    incremental_alter_configs,
)

pytestmark = pytest.mark.long

SETTINGS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
}
TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND = 0, 1, 2

OWN_SETTINGS: Final = {"errors.deadletterqueue.group.enable", "tidelog.delay.enable", "tidelog.delay.max.ms"}
OTHER_BROKER_SETTINGS: Final = {
    # Names, addresses and directories of the two clusters.
    *("zookeeper.connect", "log.dirs", "listeners"),
    # Settings of Kafka's authorizer, which Kafka's broker does not know.
    *("super.users", "allow.everyone.if.no.acl.found"),
    # A listener cannot be added while a broker of ours runs.
    "listener.security.protocol.map",
    # Defaults of our own.
    *("log.dir", "group.coordinator.rebalance.protocols"),
    # What Kafka 4.4 has for share groups, which Kafka 3.9 only tries out.
    *("group.share.partition.max.record.locks", "group.share.max.size"),
    # Ours is for members of a KRaft cluster; Kafka 3.9 shows `broker.id` under this name as well.
    "node.id",
}

Answer = tuple[Any, ...]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, Pair]]:
    with pairs(tmp_path_factory.mktemp("pairs"), SETTINGS) as made:
        for pair in made:
            topic = create_topics.CreatableTopic(
                name="t",
                num_partitions=1,
                replication_factor=1,
                configs=[create_topics.CreatableTopicConfig(name="retention.ms", value="1000000")],
            )
            created = call(pair, messages.CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
            assert created.topics[0].error_code == ErrorCode.NONE
        yield made


def call(pair: Pair, request: Any, version: int | None = None) -> Any:
    with RawClient(pair.controller().port) as client:
        return client.call(request, version)


def code(number: int) -> str:
    return ErrorCode(number).name


def broker_id(pair: Pair) -> str:
    return str(pair.members.index(pair.controller()) + 1)


# --- settings ---


def alter(pair: Pair, kind: int, name: str, *changes: tuple[str, int, str | None]) -> str:
    """The answer to IncrementalAlterConfigs."""
    configs = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    ]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = call(pair, messages.IncrementalAlterConfigsRequest(resources=[resource])).responses[0]
    return code(answer.error_code)


def replace(pair: Pair, kind: int, name: str, version: int, *settings: tuple[str, str]) -> str:
    """The answer to AlterConfigs."""
    configs = [alter_configs.AlterableConfig(name=key, value=value) for key, value in settings]
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = call(pair, messages.AlterConfigsRequest(resources=[resource]), version).responses[0]
    return code(answer.error_code)


def describe(
    pair: Pair, kind: int, name: str, version: int = 4, keys: Sequence[str] | None = None, *, in_full: bool = True
) -> dict[str, Answer]:
    """What DescribeConfigs shows; of a documentation, whether there is one."""
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
    )
    request = messages.DescribeConfigsRequest(
        resources=[resource], include_synonyms=in_full, include_documentation=in_full
    )
    result = call(pair, request, version).results[0]
    assert result.error_code == ErrorCode.NONE
    return {
        each.name: (
            *(each.value, each.read_only, each.is_default, each.config_source, each.is_sensitive, each.config_type),
            tuple((synonym.name, synonym.value, synonym.source) for synonym in each.synonyms),
            None if each.documentation is None else bool(each.documentation),
        )
        for each in result.configs
    }


CHANGES: Final[tuple[tuple[tuple[str, str], ...], ...]] = (
    (("cleanup.policy", "compact"),),
    (("no.such.setting", "1"),),
    (("no.such.password", "1"),),
    (("no.such.setting", "1"), ("log.retention.ms", "77777")),
    (("listener.name.plaintext.no.such", "1"),),
    (("ssl.keystore.location", "/x"),),
    (("log.retention.ms", "abc"),),
    (("broker.rack", "x"),),
    (("max.connections.per.ip", "5"),),
    (("", "x"),),
)


@pytest.mark.parametrize("of_all_brokers", [False, True])
def test_names_that_brokers_do_not_know_are_accepted_stored_and_described_without_their_values(
    both: tuple[Pair, Pair], of_all_brokers: bool
) -> None:
    def play(pair: Pair) -> list[object]:
        name = "" if of_all_brokers else broker_id(pair)
        found: list[object] = []
        for changes in CHANGES:
            found += [replace(pair, BROKER, name, version, *changes) for version in (0, 1, 2)]
            found.append(alter(pair, BROKER, name, *((key, SET, value) for key, value in changes)))
            found += [alter(pair, BROKER, name, *((key, DELETE, None) for key, _ in changes))]
        found.append(replace(pair, BROKER, name, 2, ("cleanup.policy", "compact"), ("no.such.setting", "1")))
        keys = ["cleanup.policy", "no.such.setting"]
        assert wait_until(lambda: len(describe(pair, BROKER, name, keys=keys)) == len(keys), SECONDS)
        found += [describe(pair, BROKER, name, version, keys) for version in range(1, 5)]
        found.append(replace(pair, BROKER, name, 2))
        assert wait_until(lambda: not describe(pair, BROKER, name, keys=keys), SECONDS)
        return found

    theirs, ours = map(play, both)
    assert ours == theirs


def test_topics_know_their_settings_only(both: tuple[Pair, Pair]) -> None:
    def play(pair: Pair) -> list[str]:
        return [
            replace(pair, TOPIC, "t", 2, ("no.such.setting", "1")),
            alter(pair, TOPIC, "t", ("no.such.setting", SET, "1")),
            alter(pair, TOPIC, "t", ("no.such.setting", DELETE, None)),
            alter(pair, TOPIC, "t", ("retention.ms", APPEND, "1")),
        ]

    theirs, ours = map(play, both)
    assert ours == theirs


@pytest.mark.parametrize("version", range(1, 5))
@pytest.mark.parametrize("in_full", [False, True])
def test_settings_are_described_as_kafka_describes_them(both: tuple[Pair, Pair], version: int, in_full: bool) -> None:
    """With synonyms, and with a documentation in words of our own, or without both."""

    def shown(pair: Pair, kind: int, name: str, keys: Sequence[str] | None = None) -> dict[str, Answer]:
        return describe(pair, kind, name, version, keys, in_full=in_full)

    theirs, ours = both
    topic = shown(ours, TOPIC, "t")
    assert {name: topic[name] for name in topic if name not in OWN_SETTINGS} == shown(theirs, TOPIC, "t")
    keys = ["segment.bytes", "retention.ms", "no.such.setting", "segment.bytes"]
    assert shown(ours, TOPIC, "t", keys) == shown(theirs, TOPIC, "t", keys)
    of_theirs, of_ours = (shown(pair, BROKER, broker_id(pair)) for pair in (theirs, ours))
    common = (of_theirs.keys() & of_ours.keys()) - OTHER_BROKER_SETTINGS
    assert len(common) > 200
    assert {name: of_ours[name] for name in common} == {name: of_theirs[name] for name in common}
    loggers = [shown(pair, LOGGER, broker_id(pair))["root"][1:] for pair in (theirs, ours)]
    assert loggers[0] == loggers[1]


# --- the controller ---


def test_only_the_controller_creates_and_deletes_topics(both: tuple[Pair, Pair]) -> None:
    def play(pair: Pair) -> list[str]:
        topic = create_topics.CreatableTopic(name="u", num_partitions=1, replication_factor=1)
        with RawClient(pair.other().port) as client:
            created = client.call(messages.CreateTopicsRequest(topics=[topic], timeout_ms=20_000)).topics[0]
            gone = delete_topics.DeleteTopicState(name="t")
            deleted = client.call(messages.DeleteTopicsRequest(topics=[gone], timeout_ms=20_000)).responses[0]
        return [code(created.error_code), code(deleted.error_code)]

    theirs, ours = map(play, both)
    assert ours == theirs == ["NOT_CONTROLLER"] * 2


# --- quotas ---

Entity = tuple[tuple[str, str | None], ...]

CLIENT_KEYS: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
ENTITIES: Final[tuple[Entity, ...]] = (
    (("user", "alice"), ("client-id", "one")),
    (("client-id", "two"), ("user", "bob")),
    (("user", None), ("client-id", None)),
    (("user", "alice"), ("client-id", None)),
    (("user", None), ("client-id", "one")),
    (("user", "carol"),),
    (("client-id", "three"),),
    (("user", None),),
    (("client-id", None),),
    (("ip", "10.0.0.1"),),
    (("ip", None),),
)
FILTERS: Final[tuple[tuple[tuple[tuple[str, int, str | None], ...], bool], ...]] = (
    ((), False),
    ((("user", 2, None),), False),
    ((("client-id", 2, None),), False),
    ((("user", 2, None), ("client-id", 2, None)), True),
    ((("client-id", 2, None), ("user", 0, "alice")), False),
    ((("user", 1, None),), True),
    ((("ip", 2, None),), True),
)


def test_quotas_are_set_and_described_in_kafkas_order(both: tuple[Pair, Pair]) -> None:
    """Of an entity's parts, and of the quotas of an entity. The entities themselves come from a hash map."""

    def play(pair: Pair) -> list[object]:
        found: list[object] = []
        for parts in ENTITIES:
            keys = ("connection_creation_rate",) if parts[0][0] == "ip" else CLIENT_KEYS
            entry = alter_client_quotas.EntryData(
                entity=[alter_client_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
                ops=[alter_client_quotas.OpData(key=key, value=100.0, remove=False) for key in keys],
            )
            answer = call(pair, messages.AlterClientQuotasRequest(entries=[entry])).entries[0]
            found.append((code(answer.error_code), entity(answer.entity)))
        everything = messages.DescribeClientQuotasRequest(components=[], strict=False)
        assert wait_until(lambda: len(call(pair, everything).entries) == len(ENTITIES), SECONDS)
        for version in (0, 1):
            found += [described(pair, components, strict, version) for components, strict in FILTERS]
        return found

    theirs, ours = map(play, both)
    assert ours == theirs


def described(pair: Pair, components: Sequence[tuple[str, int, str | None]], strict: bool, version: int) -> object:
    asked = [
        describe_client_quotas.ComponentData(entity_type=kind, match_type=match_type, match=match)
        for kind, match_type, match in components
    ]
    answer = call(pair, messages.DescribeClientQuotasRequest(components=asked, strict=strict), version)
    entries = [
        (entity(each.entity), tuple((value.key, value.value) for value in each.values)) for each in answer.entries
    ]
    return code(answer.error_code), sorted(entries, key=str)


def entity(parts: Iterable[Any]) -> tuple[tuple[str, str | None], ...]:
    return tuple((each.entity_type, each.entity_name) for each in parts)


# --- ACLs ---

ALLOW, DENY = 3, 2
LITERAL, PREFIXED = 3, 4
READ, WRITE, ALL = 3, 4, 2
GROUP, CLUSTER, TRANSACTIONAL_ID, TOKEN, USER = 3, 4, 5, 6, 7

ACLS: Final = (
    (TOPIC, "topic", LITERAL, "User:a", "*", READ, ALLOW),
    (TOPIC, "topic", PREFIXED, "User:a", "*", READ, ALLOW),
    (TOPIC, "*", LITERAL, "User:*", "1.2.3.4", ALL, DENY),
    (TOPIC, "", LITERAL, "User:a", "*", READ, ALLOW),
    (TOPIC, "a/b", LITERAL, "User:a", "*", READ, ALLOW),
    (TOPIC, "topic", LITERAL, "Group:x", "*", READ, ALLOW),
    (TOPIC, "topic", LITERAL, "User:", "*", READ, ALLOW),
    (TOPIC, "topic", LITERAL, "User:a", "", READ, ALLOW),
    (TOPIC, "topic", LITERAL, "User:a", "host.name", READ, ALLOW),
    (TOPIC, "topic", LITERAL, "User:a", "*", 12, ALLOW),
    (CLUSTER, "kafka-cluster", LITERAL, "User:a", "*", ALL, ALLOW),
    (CLUSTER, "kafka-cluster", LITERAL, "User:a", "*", READ, ALLOW),
    (CLUSTER, "other", LITERAL, "User:a", "*", ALL, ALLOW),
    (GROUP, "g", LITERAL, "User:a", "*", WRITE, ALLOW),
    (TRANSACTIONAL_ID, "tx", PREFIXED, "User:a", "*", WRITE, DENY),
    (TOKEN, "tok", LITERAL, "User:a", "*", 8, ALLOW),
    (USER, "u", LITERAL, "User:a", "*", 13, ALLOW),
)
TEXT_OF_OURS: Final = {("INVALID_REQUEST", "Failed to create ACL")}
"""What Kafka says of a name with a slash, of which we name the slash."""


def test_acls_are_created_and_refused_as_kafka_does(both: tuple[Pair, Pair]) -> None:
    def play(pair: Pair) -> tuple[list[tuple[str, str | None]], object]:
        found = []
        for kind, name, pattern, principal, host, operation, permission in ACLS:
            creation = create_acls.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            (result,) = call(pair, messages.CreateAclsRequest(creations=[creation]), 3).results
            found.append((code(result.error_code), result.error_message))
        everything = messages.DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )

        def kept() -> list[Answer]:
            return sorted(
                (
                    *(each.resource_type, each.resource_name, each.pattern_type),
                    *(acl.principal, acl.host, acl.operation, acl.permission_type),
                )
                for each in call(pair, everything, 3).resources
                for acl in each.acls
            )

        last = (kind, name, pattern, principal, host, operation, permission)
        assert wait_until(lambda: last in kept(), SECONDS)
        return found, kept()

    (of_theirs, kept_there), (of_ours, kept_here) = map(play, both)
    for acl, theirs, ours in zip(ACLS, of_theirs, of_ours, strict=True):
        assert ours[0] == theirs[0], acl
        assert ours[1] == theirs[1] or theirs in TEXT_OF_OURS, acl
    assert kept_here == kept_there
