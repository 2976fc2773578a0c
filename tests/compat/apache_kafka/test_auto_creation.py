"""What a cluster answers to the first request that names a topic: as Apache Kafka, on the controller and elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.apache_kafka.pairs import SECONDS, Pair, pairs
from tests.compat.chaos.cluster import wait_until
from tests.integration.raw_client import RawClient
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

pytestmark = pytest.mark.long

SETTINGS = {
    "default.replication.factor": "2",
    "num.partitions": "3",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "3",
}
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"

Answer = tuple[str, bool, int]
"""A topic's error, whether it is internal, and how many partitions it has."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, Pair]]:
    with pairs(tmp_path_factory.mktemp("pairs"), SETTINGS) as made:
        yield made


def ask(port: int, name: str, version: int = 12, *, may_create: bool = True) -> Answer:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=may_create)
    with RawClient(port) as client:
        (topic,) = client.call(request, version).topics
    return ErrorCode(topic.error_code).name, topic.is_internal, len(topic.partitions)


def first_answers(pair: Pair) -> list[tuple[str, Answer]]:
    """What each of the two brokers answers first to names that nothing has."""
    found: list[tuple[str, Answer]] = []
    for role, broker in (("controller", pair.controller()), ("other", pair.other())):
        for version in (0, 4, 9, 12):
            found.append((f"{role} v{version}", ask(broker.port, f"{role}-{version}", version)))
            assert wait_until(
                lambda name=f"{role}-{version}", port=broker.port: ask(port, name) == ("NONE", False, 3),  # type: ignore[misc]
                SECONDS,
            )
        for name in ("a b", "", "..", f"{role}_0", "x" * 250):
            found.append((f"{role} {name}", ask(broker.port, name)))
            found.append((f"{role} {name} without creation", ask(broker.port, name, may_create=False)))
        ask(broker.port, f"{role}.dotted")
        assert wait_until(
            lambda name=f"{role}.dotted", port=broker.port: ask(port, name)[0] == "NONE",  # type: ignore[misc]
            SECONDS,
        )
        found.append((f"{role} collides", ask(broker.port, f"{role}_dotted")))
        found.append((f"{role} transactions without creation", ask(broker.port, TRANSACTIONS, may_create=False)))
        found.append((f"{role} transactions want three replicas", ask(broker.port, TRANSACTIONS)))
        found.append((f"{role} twice", ask(broker.port, TRANSACTIONS)))
    return found


def test_the_first_answer_is_kafkas_whichever_broker_is_asked(both: tuple[Pair, Pair]) -> None:
    theirs, ours = map(first_answers, both)
    assert ours == theirs
    assert ("other v12", ("LEADER_NOT_AVAILABLE", False, 0)) in theirs


def test_internal_topics_are_created_for_a_client_that_names_them(both: tuple[Pair, Pair]) -> None:
    def play(pair: Pair) -> list[Answer]:
        port = pair.other().port
        first = ask(port, OFFSETS)
        assert wait_until(lambda: ask(port, OFFSETS)[0] == "NONE", SECONDS)
        return [first, ask(port, OFFSETS)]

    theirs, ours = map(play, both)
    assert ours == theirs == [("LEADER_NOT_AVAILABLE", True, 0), ("NONE", True, 2)]


def test_a_coordinator_is_not_available_while_its_topic_wants_more_replicas_than_there_are_brokers(
    both: tuple[Pair, Pair],
) -> None:
    def play(pair: Pair) -> list[str]:
        codes = []
        for broker in pair.members:
            with RawClient(broker.port) as client:
                answer = client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["some-id"]), 4)
            codes.append(ErrorCode(answer.coordinators[0].error_code).name)
        return [*codes, ask(pair.other().port, TRANSACTIONS, may_create=False)[0]]

    theirs, ours = map(play, both)
    assert ours == theirs == ["COORDINATOR_NOT_AVAILABLE"] * 2 + ["UNKNOWN_TOPIC_OR_PARTITION"]
