"""`tidelog doctor` and `tidelog top` on a real cluster: what is wrong is named, and rates are those of the load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer

from tests.integration.cli_support import run
from tests.integration.writers import wait_until
from tidelog.client import Admin, NewTopic
from tidelog.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(2, {"default.replication.factor": 2, "zookeeper.session.timeout.ms": 2000}) as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers, visible_timeout_ms=60_000) as admin:
            admin.create_topics([NewTopic("orders", 4, 2, configs={"min.insync.replicas": "2"})])
        yield cluster


def doctor(cluster: Cluster, *words: str) -> tuple[int, list[dict[str, str]]]:
    ran = run("doctor", "--bootstrap-server", cluster.bootstrap_servers, "--format", "json", *words)
    assert ran.code in (0, 1), ran.err
    return ran.code, json.loads(ran.out)


def about(findings: list[dict[str, str]], word: str) -> list[dict[str, str]]:
    return [each for each in findings if word in each["text"]]


def test_top_shows_the_rate_of_the_load_and_the_lag_of_a_group(cluster: Cluster) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["orders"])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(100):
        producer.produce("orders", str(number))
    producer.flush(30)
    read: list[Message] = []
    while len(read) < 100:
        read += [each for each in consumer.consume(100, 1) if each.error() is None]
    consumer.commit(asynchronous=False)
    words = [sys.executable, "-m", "tidelog", "top", "--bootstrap-server", cluster.bootstrap_servers]
    with subprocess.Popen(
        [*words, "--times", "60", "--every", "1", "--format", "json"], stdout=subprocess.PIPE, text=True
    ) as top:
        try:
            _check_rates(top, producer)
        finally:
            top.terminate()
    findings = doctor(cluster, "--wait", "1")[1]
    assert [each["subject"] for each in about(findings, "committed nothing")] == ["group billing"]
    consumer.close()


def _check_rates(top: subprocess.Popen[str], producer: Producer) -> None:
    """What `top` reports over time is what was written, however long that took."""
    assert top.stdout is not None
    last: dict[str, Any] = json.loads(top.stdout.readline())
    for number in range(300):
        producer.produce("orders", str(number))
    producer.flush(30)
    written = 0.0
    for line in top.stdout:
        seen: dict[str, Any] = json.loads(line)
        (topic,) = [each for each in seen["topics"] if each["topic"] == "orders"]
        rate = topic["written_per_s"]
        assert sum(each["written_per_s"] for each in seen["brokers"]) == pytest.approx(rate)
        written += rate * (seen["time"] - last["time"])
        last = seen
        (group,) = [each for each in seen["groups"] if each["group"] == "billing"]
        if group["lag"] == 300 and written >= 270:
            break
    assert written == pytest.approx(300, rel=0.1)
    assert (group["lag"], group["state"]) == (300, "Stable")


def test_doctor_names_a_broker_that_is_gone_and_what_that_means(cluster: Cluster) -> None:
    _, findings = doctor(cluster, "--wait", "0")
    assert not about(findings, "under-replicated")
    assert "orders" in about(findings, "stops acks=all")[0]["subject"]
    cluster.kill(2)

    def is_noticed() -> bool:
        # The broker leaves the cluster first, and the in-sync replicas when the controller has elected new leaders.
        code, found = doctor(cluster, "--wait", "0")
        gone, below = about(found, "not in the cluster"), about(found, "min.insync.replicas=2")
        return code == 1 and [each["subject"] for each in gone] == ["broker 2"] and below[:1] != []

    wait_until(is_noticed, "the broker's session has ended", 120)
    findings = doctor(cluster, "--wait", "0")[1]
    assert about(findings, "min.insync.replicas=2")[0]["level"] == "bad"


def test_doctor_without_a_cluster_says_what_it_tried() -> None:
    ran = run("doctor", "--bootstrap-server", "127.0.0.1:1")
    assert ran.code == 1
    assert "127.0.0.1:1" in ran.err
