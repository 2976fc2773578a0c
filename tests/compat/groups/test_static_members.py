"""Static members: a restart without a rebalance, and duplicates that are fenced."""

from __future__ import annotations

from functools import partial

from tests.compat.groups.conftest import PARTITIONS, Produce
from tests.compat.groups.members import ConfluentMember, KafkaPythonMember, Member, Readings, running, share, wait_until
from tidelog.testing import Broker

LONG_SESSION_MS = 20_000


def test_a_static_member_restarts_without_a_rebalance(broker: Broker, topic: str, produce: Produce) -> None:
    """librdkafka does not leave when a static member closes; the same instance comes back to its partitions."""
    readings = Readings()

    def member(name: str, instance_id: str) -> Member:
        return ConfluentMember(
            broker.bootstrap_servers,
            topic,
            topic,
            readings,
            name,
            instance_id=instance_id,
            session_ms=LONG_SESSION_MS,
        )

    stays, restarts = member("stays", "a"), member("restarts", "b")
    with running(stays):
        with running(restarts):
            wait_until(lambda: share([stays, restarts], PARTITIONS), "both share")
            before = restarts.assignments[-1]
        assignments = list(stays.assignments)
        values = produce(120)
        back = member("restarted", "b")
        with running(back):
            wait_until(lambda: back.assignment == before, "it has its partitions again")
            readings.wait_for(values)
        assert stays.assignments == assignments, "the other one never noticed"


def test_a_duplicate_instance_is_fenced(broker: Broker, topic: str) -> None:
    from confluent_kafka import KafkaError, KafkaException

    readings = Readings()
    first, second = (
        ConfluentMember(
            broker.bootstrap_servers, topic, topic, readings, name, instance_id="same", session_ms=LONG_SESSION_MS
        )
        for name in ("first", "second")
    )
    first.start()
    wait_until(lambda: share([first], PARTITIONS), "the first instance has all partitions")
    with running(second):
        wait_until(lambda: share([second], PARTITIONS), "the second instance has them")
        wait_until(lambda: first.error is not None, "the first one fails")
    assert isinstance(first.error, KafkaException)
    assert first.error.args[0].code() in (KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID)
    first.stop()


def test_a_static_member_of_kafka_python_keeps_its_partitions(broker: Broker, topic: str, produce: Produce) -> None:
    readings = Readings()
    for name in ("first", "second"):
        member = KafkaPythonMember(
            broker.bootstrap_servers, topic, topic, readings, name, instance_id="i", session_ms=LONG_SESSION_MS
        )
        with running(member):
            wait_until(partial(share, [member], PARTITIONS), "it has all partitions", 10)
            readings.wait_for(produce(60, 60 * (name == "second")))
