"""Topics that are created because a client named them, and brokers that do not do that."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.compat.clients.admins import ADMINS
from tests.compat.clients.batches import batch, numbered
from tests.compat.clients.brokers import Broker, ours_alone
from tests.compat.clients.drivers import DRIVERS, Driver, Refused
from tests.compat.clients.raw import RawConnection, fetch, produce
from tests.compat.clients.waiting import wait_until
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

LIBRDKAFKA = DRIVERS[0]
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
"""What librdkafka may call it, from the broker's answer or from its own lookup."""


@pytest.fixture(scope="module")
def broker_config() -> dict[str, object]:
    return {"num.partitions": 3, "log.retention.ms": 123_456_789}


def ask(broker: Broker, name: str, version: int, *, may_create: bool = True) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=may_create)
    with RawConnection(broker) as connection:
        (topic,) = connection.call(request, version, MetadataResponse).topics
    return topic


def test_an_unknown_topic_gets_the_brokers_defaults(client: Driver, servers: str, topic_name: str) -> None:
    client.produce(servers, topic_name, numbered(1), partition=2)
    assert ADMINS[0].topics(servers)[topic_name] == 3


@pytest.mark.parametrize("version", range(13))
def test_asking_for_metadata_makes_a_topic(version: int, broker: Broker, topic_name: str) -> None:
    """Always before version 4, afterwards if the client wants it: administrators only look."""
    if version >= 4:
        refused = ask(broker, topic_name, version, may_create=False)
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    made = wait_until(
        lambda: ask(broker, topic_name, version), lambda topic: topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE
    )
    assert (made.error_code, len(made.partitions)) == (0, 3)


@pytest.mark.parametrize("version", [0, 4, 9, 12])
def test_an_illegal_name_is_not_unknown_but_illegal(version: int, broker: Broker) -> None:
    assert ask(broker, "white space", version).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert ask(broker, "white space", version, may_create=False).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_producing_to_a_missing_partition_makes_nothing(broker: Broker, topic_name: str) -> None:
    """Only Metadata makes topics; a Produce or Fetch for one that is not there gets an error."""
    with RawConnection(broker) as connection:
        answer = produce(connection, topic_name, batch(numbered(1)))
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert fetch(connection, topic_name, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic_name not in ADMINS[0].topics(broker.bootstrap_servers)


def test_a_consumer_that_does_not_want_topics_made_makes_none(servers: str, topic_name: str) -> None:
    """librdkafka's consumers do not by default."""
    with pytest.raises(KafkaException) as refused:
        LIBRDKAFKA.watermarks(servers, topic_name)
    assert refused.value.args[0].code() in UNKNOWN
    assert topic_name not in ADMINS[0].topics(servers)


def test_where_it_is_switched_off_an_unknown_topic_stays_unknown(topic_name: str) -> None:
    with Broker({"auto.create.topics.enable": False}) as broker:
        assert ask(broker, topic_name, 12).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert ask(broker, "white space", 12).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        with pytest.raises(Refused) as refused:
            LIBRDKAFKA.produce(broker.bootstrap_servers, topic_name, numbered(1))
        assert refused.value.code in UNKNOWN
        assert ADMINS[0].topics(broker.bootstrap_servers) == {}


@ours_alone
def test_one_request_makes_a_hundred_topics_and_the_next_the_others(broker: Broker, topic_name: str) -> None:
    """No other client is served while topics are created: the client must retry, as it does anyway."""
    names = [f"{topic_name}-{number}" for number in range(130)]
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    with RawConnection(broker) as connection:
        first = [topic.error_code for topic in connection.call(request, 12, MetadataResponse).topics]
        second = [topic.error_code for topic in connection.call(request, 12, MetadataResponse).topics]
    assert (first.count(0), first.count(ErrorCode.LEADER_NOT_AVAILABLE)) == (100, 30)
    assert second == [0] * 130
