"""Joining, leaving, crashing, being slow: with each client, every record is read by the group."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.compat.groups.conftest import PARTITIONS, Produce
from tests.compat.groups.members import (
    MEMBERS,
    SHORT_SESSION_MS,
    ConfluentMember,
    KafkaPythonMember,
    Member,
    Readings,
    running,
    share,
    wait_for_commits,
    wait_until,
)
from tests.unit.present import present
from tidelog.testing import Broker

STRATEGIES = [
    pytest.param(kind, strategy, id=f"{kind.client}-{strategy}") for kind in MEMBERS for strategy in kind.strategies
]


@pytest.mark.parametrize(("kind", "strategy"), STRATEGIES)
def test_members_come_and_go_and_share_the_partitions(
    broker: Broker, topic: str, produce: Produce, kind: type[Member], strategy: str
) -> None:
    """Eager and cooperative alike: one member, then two, then one again."""
    readings = Readings()
    first, second = (
        kind(broker.bootstrap_servers, topic, topic, readings, name, strategy=strategy) for name in ("first", "second")
    )
    with running(first):
        readings.wait_for(produce(60))
        wait_until(lambda: share([first], PARTITIONS), "the first member has all partitions")
        with running(second):
            wait_until(lambda: share([first, second], PARTITIONS), "two members share")
            readings.wait_for(produce(60, 60))
        wait_until(lambda: share([first], PARTITIONS), "the first member has all partitions again", 10)
        readings.wait_for(produce(60, 120))
    assert readings.by("second")


def test_a_new_member_goes_on_where_the_group_stopped(
    broker: Broker, topic: str, produce: Produce, member_class: type[Member]
) -> None:
    readings = Readings()
    before = produce(60)
    with running(member_class(broker.bootstrap_servers, topic, topic, readings, "before")):
        readings.wait_for(before)
        wait_for_commits(broker.bootstrap_servers, topic, topic)
    after = produce(60, 60)
    with running(member_class(broker.bootstrap_servers, topic, topic, readings, "after")):
        readings.wait_for(after)
    assert readings.by("after") == set(after), "what was committed is not read again"
    assert readings.repeated() == 0


def test_different_clients_share_one_group(broker: Broker, topic: str, produce: Produce) -> None:
    readings = Readings()
    members = [kind(broker.bootstrap_servers, topic, topic, readings, kind.client) for kind in MEMBERS]
    with running(*members):
        wait_until(lambda: share(members, PARTITIONS), "all three share")
        readings.wait_for(produce(300))
    assert all(readings.by(member.name) for member in members)


CRASHING = textwrap.dedent(
    """
    import sys
    from confluent_kafka import Consumer
    servers, group, session_ms = sys.argv[1:]
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": group, "session.timeout.ms": int(session_ms),
        "heartbeat.interval.ms": 100, "auto.offset.reset": "earliest", "enable.auto.commit": False,
        "partition.assignment.strategy": "range", "log_level": 0,
    })
    consumer.subscribe([group])
    while not consumer.assignment():
        consumer.consume(100, 0.05)
    print("assigned", flush=True)
    while True:
        consumer.consume(100, 0.05)
    """
)


def test_what_a_crashed_member_had_is_read_by_the_others(broker: Broker, topic: str, produce: Produce) -> None:
    """It read and did not commit; it sends nothing any more; after its session timeout others have its partitions."""
    readings = Readings()
    survivor = ConfluentMember(broker.bootstrap_servers, topic, topic, readings, "survivor")
    with running(survivor):
        wait_until(lambda: share([survivor], PARTITIONS), "the survivor has all partitions")
        crashing = subprocess.Popen(
            [sys.executable, "-c", CRASHING, broker.bootstrap_servers, topic, str(SHORT_SESSION_MS)],
            stdout=subprocess.PIPE,
        )
        output = present(crashing.stdout)
        try:
            assert output.readline() == b"assigned\n"
            wait_until(lambda: len(survivor.assignment) == PARTITIONS // 2, "both have a share")
            values = produce(120)
        finally:
            os.kill(crashing.pid, signal.SIGKILL)
            crashing.wait()
            output.close()
        readings.wait_for(values)


@pytest.mark.parametrize("kind", [ConfluentMember, KafkaPythonMember], ids=lambda kind: kind.client)
def test_a_member_that_is_too_slow_makes_room(broker: Broker, topic: str, produce: Produce, kind: type[Member]) -> None:
    """It does not poll within max.poll.interval.ms, so its client leaves for it."""
    import threading

    may_go_on = threading.Event()
    readings = Readings()
    slow = kind(
        broker.bootstrap_servers,
        topic,
        topic,
        readings,
        "slow",
        session_ms=SHORT_SESSION_MS,
        poll_interval_ms=SHORT_SESSION_MS,
        on_records=lambda: may_go_on.wait(30),
    )
    quick = kind(broker.bootstrap_servers, topic, topic, readings, "quick")
    with running(slow):
        wait_until(lambda: share([slow], PARTITIONS), "the slow one has all partitions")
        first = produce(60)
        wait_until(lambda: readings.by("slow"), "the slow one reads")
        with running(quick):
            wait_until(lambda: share([quick], PARTITIONS), "the quick one has all partitions")
            readings.wait_for([*first, *produce(60, 60)])
            may_go_on.set()
    assert readings.by("quick") >= set(first), "what the slow one never committed is read again"


def test_many_groups_each_read_everything(broker: Broker, topic: str, produce: Produce) -> None:
    values = produce(60)
    readings = [Readings() for _ in range(24)]
    members = [
        ConfluentMember(broker.bootstrap_servers, f"{topic}-{number}", topic, reading, f"m{number}")
        for number, reading in enumerate(readings)
    ]
    with running(*members):
        for reading in readings:
            reading.wait_for(values)
