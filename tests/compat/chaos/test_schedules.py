"""Three brokers under faults and third-party clients: nothing acknowledged is lost, duplicated, reordered or hidden.

`make chaos` runs more of these. Each schedule has a process of its own: clients that meet faults leave sockets, and
sometimes threads, behind.

All are long. In every run `tests/integration/test_cli_demo_failover.py` kills a leader of three real brokers, and
`tests/integration/test_kill_clients.py` a broker under librdkafka.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks import apache_kafka
from tests.integration.zookeeper_support import needs_zookeeper

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

LONG_SEEDS = range(6)
FAILED = 1


def chaos(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tests.compat.chaos", *words], capture_output=True, text=True)


def check(*words: str) -> None:
    done = chaos(*words)
    assert done.returncode == 0, done.stdout + done.stderr


def one(name: str, tree: str) -> tuple[str, ...]:
    """One fault, soon."""
    return ("--seed", "1", "--tree", tree, "--only", name, "--faults", "1", "--seconds", "1")


@pytest.mark.parametrize("name", ["kill the leader", "isolate from all"])
def test_a_broker_that_is_gone_loses_nothing(name: str) -> None:
    check(*one(name, "shared"))


@needs_zookeeper
def test_a_killed_zookeeper_loses_nothing() -> None:
    check(*one("kill ZooKeeper", "zookeeper"))


@needs_zookeeper
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_schedules_hold_every_promise(seed: int) -> None:
    check("--seed", str(seed))


def test_writes_that_only_a_leader_acknowledged_are_found_to_be_lost() -> None:
    """The checker finds what it looks for: a producer with acks=1 that claims acks=all."""
    words = ("--tree", "shared", "--only", "isolate from all", "--faults", "2", "--careless")
    found = [chaos("--seed", str(seed), *words) for seed in range(2)]
    assert any(done.returncode == FAILED and "lost write" in done.stdout for done in found), [
        done.stdout + done.stderr for done in found
    ]


@pytest.mark.java
@needs_zookeeper
@pytest.mark.parametrize("seed", [100])
def test_schedules_hold_every_promise_to_the_java_client(seed: int) -> None:
    reason = apache_kafka.unavailable_reason()
    if reason is not None:
        pytest.skip(reason)
    check("--seed", str(seed), "--java")
