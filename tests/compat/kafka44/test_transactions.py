"""Kafka's Java producers 3.9 and 4.4 beside each other: transactions of both protocols, at every level."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from benchmarks import apache_kafka
from benchmarks.maven import Jars
from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import FeatureUpgrade
from tidelog.testing import Broker

NEWER: Final = Jars(
    "kafka-clients-4.4.0", "Kafka's clients 4.4.0", (("org.apache.kafka", "kafka-clients", "4.4.0"),), True
)
OLDER: Final = Jars(
    "kafka-clients-3.9.1", "Kafka's clients 3.9.1", (("org.apache.kafka", "kafka-clients", "3.9.1"),), True
)
PROGRAM: Final = Path(__file__).with_name("Transactions44.java")

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(apache_kafka.MAVEN_SECONDS_MAX + 240)]


def started(jars: Jars, broker: Broker, transactional_id: str, topic: str) -> subprocess.Popen[str]:
    command = ["java", "-Xmx256M", "-cp", f"{jars.libs}/*", str(PROGRAM)]
    return subprocess.Popen(
        [*command, broker.bootstrap_servers, transactional_id, topic],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process: subprocess.Popen[str]) -> str:
    try:
        printed, complaints = process.communicate(timeout=150)
    finally:
        process.kill()
    assert process.returncode == 0, complaints[-4000:]
    return printed


def expected(*, is_bumped: bool) -> str:
    return (
        f"epoch is bumped {str(is_bumped).lower()} CompleteCommit\noffset 18\nfenced\n"
        "read {last=1, second=1, yes=60}\n"
    )


@pytest.mark.parametrize("level", [2, 1, 0])
def test_producers_of_both_protocols_work_beside_each_other(level: int) -> None:
    for jars in (NEWER, OLDER):
        reason = jars.unavailable_reason()
        if reason is not None:
            pytest.skip(reason)
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            if level != 2:
                admin.update_features({"transaction.version": level}, FeatureUpgrade.SAFE_DOWNGRADE)
        newer = started(NEWER, broker, "newer", "by-newer")
        older = started(OLDER, broker, "older", "by-older")
        assert output_of(newer) == expected(is_bumped=level == 2)
        assert output_of(older) == expected(is_bumped=False)


def test_one_id_is_taken_over_by_producers_of_both_protocols() -> None:
    for jars in (NEWER, OLDER):
        reason = jars.unavailable_reason()
        if reason is not None:
            pytest.skip(reason)
    with Broker() as broker:
        assert "fenced" in output_of(started(OLDER, broker, "moving", "first"))
        assert output_of(started(NEWER, broker, "moving", "second")) == expected(is_bumped=True)
        printed = output_of(started(OLDER, broker, "moving", "third"))
        assert printed.splitlines()[-1] == "read {last=1, second=1, yes=60}"
