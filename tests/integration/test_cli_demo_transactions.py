"""The demonstrations of producers and transactions, in small."""

from tests.integration.cli_support import run
from tidelog.testing import Broker


def test_exactly_once_survives_killed_instances_and_proves_it() -> None:
    done = run("demo", "exactly-once", "3", "2", "3000", "--kills", "2", "--seed", "1")
    assert done.code == 0, done.err
    assert "3,000 records went in, over 3 partitions; 3,000 came out, each once and in order" in done.out
    assert "checking: 3,000 of 3,000" in done.err


def test_exactly_once_runs_on_a_cluster_that_is_there() -> None:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        done = run(
            "demo", "exactly-once", "2", "1", "500", "--kills", "0", "--bootstrap-server", broker.bootstrap_servers
        )
    assert done.code == 0, done.err
    assert "500 came out" in done.out


def test_sync_waits_for_every_answer() -> None:
    done = run("demo", "sync", "--records", "50")
    assert done.code == 0, done.err
    assert "50 records sent, each after the answer to the one before" in done.out
    assert "each once and in order" in done.out


def test_async_does_not_wait() -> None:
    done = run("demo", "async", "--records", "500")
    assert done.code == 0, done.err
    assert "500 records sent, without waiting for answers" in done.out
