"""`tidelog reassign`: partitions move between brokers, at the rate of their throttle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_support import run_here
from tests.integration.writers import wait_until
from tidelog.client import Admin, Producer
from tidelog.client.aio.admin.types import ConfigResource, NewTopic, ResourceType
from tidelog.testing import Cluster

SLOW = 20_000
RECORDS = 60
VALUE = bytes(100_000)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, config={"auto.leader.rebalance.enable": "false"}) as running:
        yield running


def write_plan(path: Path, topic: str, replicas: list[int]) -> str:
    path.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}))
    return str(path)


def throttles(admin: Admin, topic: str) -> list[str]:
    """The settings of throttles that are set anywhere."""
    resources = [ConfigResource(ResourceType.TOPIC, topic)]
    resources += [ConfigResource(ResourceType.BROKER, str(broker)) for broker in (1, 2)]
    return sorted(
        entry.name
        for entries in admin.describe_configs(resources).values()
        for entry in entries.values()
        if "throttled" in entry.name and entry.value
    )


def test_a_throttled_move_is_slow_until_the_throttle_is_raised_and_leaves_none_behind(
    cluster: Cluster, tmp_path: Path
) -> None:
    """At 20 kB a second 6 MB take five minutes: a plan without a throttle, executed later, is done before."""
    servers = cluster.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        for topic in ("slow", "quick"):
            admin.create_topics([NewTopic(topic, assignment=[[1]], configs={"min.insync.replicas": "1"})])
            with Producer(bootstrap_servers=servers) as producer:
                for _ in range(RECORDS):
                    producer.send(topic, VALUE, partition=0)
        plan = write_plan(tmp_path / "plan.json", "slow", [2])
        begun = run_here("reassign", "execute", plan, "--throttle", str(SLOW), server=servers)
        assert begun.code == 0, begun
        assert begun.document["partitions"][0]["replicas"] == [1]
        assert len(throttles(admin, "slow")) == 6
        other = write_plan(tmp_path / "other.json", "quick", [2])
        assert run_here("reassign", "execute", other, server=servers).code == 0
        wait_until(lambda: run_here("reassign", "verify", other, server=servers).code == 0, "the other move to end", 60)
        moving = run_here("reassign", "verify", plan, "--format", "json", server=servers)
        assert moving.code == 3, moving
        assert json.loads(moving.out)[0]["state"] == "moving"
        assert len(throttles(admin, "slow")) == 6, "they stay as long as something moves"
        assert run_here("reassign", "execute", plan, "--throttle", "1000000000", server=servers).code == 0
        wait_until(lambda: run_here("reassign", "verify", plan, server=servers).code == 0, "the move to end", 60)
        assert throttles(admin, "slow") == []
        assert admin.describe_topics(["slow"])["slow"].partitions[0].replicas == (2,)
