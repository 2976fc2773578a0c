"""`tidelog transactions` against a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.transactions.protocol import Producer, Rpc, until
from tests.integration.cli_support import Ran, run_here
from tidelog.testing import Broker
from tidelog.wire.errors import ErrorCode


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Without verification, so that a transaction can be left behind as with old brokers."""
    settings = {"transaction.partition.verification.enable": "false", "transaction.state.log.num.partitions": 3}
    with Broker(settings) as running:
        running.create_topic("t", 2)
        running.create_topic("other")
        yield running


@pytest.fixture
def rpc(broker: Broker) -> Iterator[Rpc]:
    with Rpc(broker.port) as connection:
        yield connection


@pytest.fixture(scope="module")
def opened(broker: Broker) -> Producer:
    """A transaction that is open in t-1."""
    with Rpc(broker.port) as rpc:
        rpc.start("idle")
        producer = rpc.start("busy")
        rpc.begin(producer, ("t", 1))
        rpc.write("t", 1, [b"x"], producer)
    return producer


def transactions(broker: Broker, *words: str) -> Ran:
    return run_here("transactions", *words, server=broker.bootstrap_servers)


def test_transactions_are_listed_as_a_table_and_as_json(broker: Broker, opened: Producer) -> None:
    said = transactions(broker, "list")
    assert said.code == 0
    assert said.out.splitlines()[0].split() == ["TRANSACTIONAL-ID", "PRODUCER-ID", "STATE"]
    assert ["busy", str(opened.producer_id), "Ongoing"] in [line.split() for line in said.out.splitlines()]
    listed = transactions(broker, "list", "--format", "json", "--state", "ongoing").document
    assert listed == [{"transactional_id": "busy", "producer_id": opened.producer_id, "state": "Ongoing"}]


def test_lists_are_filtered(broker: Broker, opened: Producer) -> None:
    by_id = transactions(broker, "list", "--format", "json", "--producer-id", str(opened.producer_id)).document
    assert [each["transactional_id"] for each in by_id] == ["busy"]
    assert (
        transactions(broker, "list", "--format", "json", "--longer-than", "3600000", "--state", "Ongoing").document
        == []
    )


def test_a_state_that_does_not_exist_is_said(broker: Broker) -> None:
    said = transactions(broker, "list", "--state", "sleeping")
    assert said.code == 1
    assert "'sleeping' must be one of Empty, Ongoing" in said.err


def test_a_transaction_is_described(broker: Broker, opened: Producer) -> None:
    said = transactions(broker, "describe", "busy", "idle")
    assert said.code == 0
    rows = [line.split() for line in said.out.splitlines()[1:]]
    assert [row[0] for row in rows] == ["busy", "idle"]
    assert rows[0][-1] == "t-1"
    assert rows[1][-2:] == ["-", "-"]
    (described,) = transactions(broker, "describe", "busy", "--format", "json").document
    assert described["partitions"] == [{"topic": "t", "partition": 1}]
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 60_000)
    assert described["open_for_ms"] >= 0


def test_an_unknown_id_is_said(broker: Broker) -> None:
    said = transactions(broker, "describe", "no-such-id")
    assert said.code == 1
    assert "no-such-id" in said.err


def test_a_hanging_transaction_is_found_and_aborted(broker: Broker, rpc: Rpc, opened: Producer) -> None:
    """It is open in a partition that its coordinator never heard of; the other is known, and so it does not hang."""
    lost = rpc.start("lost")
    rpc.write("other", 0, [b"x"], lost)
    arguments = ("find-hanging", "--max-transaction-timeout", "-1")
    (found,) = transactions(broker, *arguments, "--format", "json").document
    assert (found["topic"], found["partition"], found["start_offset"]) == ("other", 0, 0)
    assert found["producer_id"] == lost.producer_id
    text = transactions(broker, *arguments, "--topic", "other", "--partition", "0")
    assert text.out.splitlines()[1].split()[:3] == ["other", "0", str(lost.producer_id)]
    where = ("--topic", "other", "--partition", "0", "--start-offset", "0")
    said = transactions(broker, "abort", *where, "--format", "json")
    assert said.code == 0, said.err
    assert said.document == {"topic": "other", "partition": 0, "producer_id": lost.producer_id, "start_offset": 0}
    assert rpc.fetch("other").last_stable_offset == 2
    assert transactions(broker, *arguments).out == "no hanging transactions\n"


def test_what_is_not_open_long_enough_does_not_hang(broker: Broker, opened: Producer) -> None:
    assert transactions(broker, "find-hanging").out == "no hanging transactions\n"


def test_an_abort_of_what_is_not_open_says_what_is(broker: Broker, opened: Producer) -> None:
    said = transactions(broker, "abort", "--topic", "t", "--partition", "1", "--start-offset", "77")
    assert said.code == 1
    assert f"open ones start at: 0 (producer {opened.producer_id})" in said.err


def test_an_abort_needs_one_way_to_name_the_transaction(broker: Broker) -> None:
    for words in ([], ["--topic", "t"], ["--transactional-id", "busy", "--topic", "t"]):
        said = transactions(broker, "abort", *words)
        assert said.code == 1
        assert "give --transactional-id alone" in said.err


def test_an_abort_by_id_fences_the_producer(broker: Broker, rpc: Rpc) -> None:
    producer = rpc.start("victim")
    rpc.begin(producer, ("t", 0))
    rpc.write("t", 0, [b"x"], producer)
    said = transactions(broker, "abort", "--transactional-id", "victim")
    assert said.code == 0, said.err
    until(lambda: rpc.fetch("t", 0).last_stable_offset == 2)
    assert rpc.read("t", 0) == []
    assert rpc.end(producer, True) is ErrorCode.PRODUCER_FENCED


def test_an_abort_of_an_unknown_id_makes_nothing(broker: Broker) -> None:
    assert transactions(broker, "abort", "--transactional-id", "no-such-id").code == 1
    assert "no-such-id" not in transactions(broker, "list").out
