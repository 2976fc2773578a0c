"""Where records are doubled or lost between producer, broker and consumer, and what prevents it.

One test for each way it happens and one for each remedy. The network's part is played by hand: an answer that is lost
is one that no consumer reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.compat.transactions.protocol import Producer, Rpc, until
from tests.integration.raw_client import RawClient, batch_of, produce_request
from tidelog.client import Admin, ConfigChange, ConfigResource, ResourceType
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import offset_commit

TOPIC = "t"
GROUP = "g"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}) as running:
        running.create_topic(TOPIC)
        yield running


@pytest.fixture
def rpc(broker: Broker) -> Iterator[Rpc]:
    with Rpc(broker.port) as connection:
        yield connection


def send_and_lose_the_answer(broker: Broker, batch: bytes, acks: int = -1) -> None:
    """The broker writes the batch; the connection ends before the producer hears of it."""
    with RawClient(broker.port) as connection:
        connection.send(produce_request(TOPIC, {0: batch}, acks=acks), 9)
        if acks:
            connection.frame()


def send(rpc: Rpc, batch: bytes, acks: int = -1) -> ErrorCode:
    answer = rpc.client.call(produce_request(TOPIC, {0: batch}, acks=acks), 9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def let_appends_fail(broker: Broker, *, is_failing: bool) -> None:
    """For a while the broker refuses what is sent, as it does when replicas are missing or a disk is full."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        change = ConfigChange("max.message.bytes", "1" if is_failing else "1000000")
        admin.incremental_alter_configs({ConfigResource(ResourceType.TOPIC, TOPIC): [change]})


# --- from the producer to the broker: doubled ---


def test_a_retry_after_a_lost_answer_doubles_the_record_without_idempotence(broker: Broker, rpc: Rpc) -> None:
    send_and_lose_the_answer(broker, batch_of([b"x"]))
    assert send(rpc, batch_of([b"x"])) is ErrorCode.NONE
    assert rpc.read(TOPIC) == [b"x", b"x"]


def test_a_retry_after_a_lost_answer_is_there_once_with_idempotence(broker: Broker, rpc: Rpc) -> None:
    _, producer_id, epoch = rpc.init(None)
    batch = batch_of([b"x"], producer=(producer_id, epoch, 0))
    send_and_lose_the_answer(broker, batch)
    assert send(rpc, batch) is ErrorCode.NONE, "the retry succeeds, as the record is there"
    assert rpc.read(TOPIC) == [b"x"]


def test_a_retry_within_a_transaction_is_there_once(rpc: Rpc) -> None:
    producer = rpc.start("id")
    rpc.begin(producer, (TOPIC, 0))
    assert rpc.write(TOPIC, 0, [b"x"], producer) == rpc.write(TOPIC, 0, [b"x"], producer)
    rpc.finish(producer, True)
    assert rpc.read(TOPIC) == [b"x"]


def test_a_restarted_producer_does_not_double_what_it_wrote_in_a_transaction(rpc: Rpc) -> None:
    """Idempotence ends with the producer id; only the transactional id outlives the program."""
    first = rpc.start("id")
    rpc.begin(first, (TOPIC, 0))
    rpc.write(TOPIC, 0, [b"x"], first)
    second = rpc.start("id")
    rpc.begin(second, (TOPIC, 0))
    rpc.write(TOPIC, 0, [b"x"], second)
    rpc.finish(second, True)
    assert rpc.read(TOPIC) == [b"x"]


def test_acks_0_is_never_repeated_and_so_never_doubled(broker: Broker, rpc: Rpc) -> None:
    send_and_lose_the_answer(broker, batch_of([b"x"]), acks=0)
    until(lambda: rpc.read(TOPIC) == [b"x"])


# --- from the producer to the broker: in another order ---


def test_several_requests_in_flight_change_places_when_the_first_is_repeated(broker: Broker, rpc: Rpc) -> None:
    let_appends_fail(broker, is_failing=True)
    assert send(rpc, batch_of([b"1"])) is ErrorCode.MESSAGE_TOO_LARGE
    let_appends_fail(broker, is_failing=False)
    assert send(rpc, batch_of([b"2"])) is ErrorCode.NONE
    assert send(rpc, batch_of([b"1"])) is ErrorCode.NONE
    assert rpc.read(TOPIC) == [b"2", b"1"]


def test_with_idempotence_the_second_waits_for_the_first(broker: Broker, rpc: Rpc) -> None:
    _, producer_id, epoch = rpc.init(None)
    batches = [batch_of([b"%d" % number], producer=(producer_id, epoch, number)) for number in range(3)]
    assert send(rpc, batches[0]) is ErrorCode.NONE
    let_appends_fail(broker, is_failing=True)
    assert send(rpc, batches[1]) is ErrorCode.MESSAGE_TOO_LARGE
    let_appends_fail(broker, is_failing=False)
    assert send(rpc, batches[2]) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [send(rpc, batch) for batch in batches[1:]] == [ErrorCode.NONE] * 2
    assert rpc.read(TOPIC) == [b"0", b"1", b"2"]


def test_one_request_in_flight_keeps_the_order(broker: Broker, rpc: Rpc) -> None:
    let_appends_fail(broker, is_failing=True)
    assert send(rpc, batch_of([b"1"])) is ErrorCode.MESSAGE_TOO_LARGE
    let_appends_fail(broker, is_failing=False)
    assert [send(rpc, batch_of([value])) for value in (b"1", b"2")] == [ErrorCode.NONE] * 2
    assert rpc.read(TOPIC) == [b"1", b"2"]


# --- from the producer to the broker: lost ---


def test_with_acks_0_a_record_that_is_refused_is_lost(broker: Broker, rpc: Rpc) -> None:
    """The only sign is the end of the connection."""
    damaged = bytearray(batch_of([b"x"]))
    damaged[-1] ^= 0xFF
    with RawClient(broker.port) as connection:
        connection.send(produce_request(TOPIC, {0: bytes(damaged)}, acks=0), 9)
        assert connection.is_closed_by_peer()
    assert rpc.read(TOPIC) == []


@pytest.mark.parametrize("acks", [1, -1])
def test_what_was_acknowledged_survives_the_death_of_the_broker(acks: int) -> None:
    """With one replica both mean the same. With more, only acks=all survives the loss of the leader's disk."""
    with Broker(process=True) as broker:
        broker.create_topic(TOPIC)
        with Rpc(broker.port) as rpc:
            assert send(rpc, batch_of([b"x"]), acks) is ErrorCode.NONE
        broker.kill()
        broker.start()
        with Rpc(broker.port) as rpc:
            assert rpc.read(TOPIC) == [b"x"]


def test_a_leader_from_outside_of_the_in_sync_replicas_is_not_elected_unless_asked_for(rpc: Rpc) -> None:
    from tidelog.wire.messages import describe_configs

    resource = describe_configs.DescribeConfigsResource(
        resource_type=2, resource_name=TOPIC, configuration_keys=["unclean.leader.election.enable"]
    )
    (answer,) = rpc.client.call(messages.DescribeConfigsRequest(resources=[resource]), 4).results
    assert [(entry.name, entry.value) for entry in answer.configs] == [("unclean.leader.election.enable", "false")]


def test_a_record_that_can_never_be_written_fails_for_its_producer(rpc: Rpc) -> None:
    """It can be kept elsewhere then; no retry would help."""
    code = send(rpc, batch_of([b"x" * 2_000_000]))
    assert (code, code.retriable) == (ErrorCode.MESSAGE_TOO_LARGE, False)


# --- from the broker to the consumer ---


class Application:
    """Reads a topic, does something with each record, and notes how far it is."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        until(lambda: rpc.find_coordinator(GROUP, 0) is ErrorCode.NONE)
        _, offset = rpc.offset_of(GROUP, (TOPIC, 0), require_stable=True)
        self.position = max(offset, 0)

    def poll(self) -> list[tuple[int, bytes]]:
        found, self.position = self._rpc.poll(TOPIC, 0, self.position)
        return found

    def commit(self, offset: int) -> None:
        entry = offset_commit.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = messages.OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            topics=[offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[entry])],
        )
        answer: Any = self._rpc.client.call(request, 7)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


@pytest.fixture
def five_records(rpc: Rpc) -> list[bytes]:
    values = [b"%d" % number for number in range(5)]
    for value in values:
        rpc.write(TOPIC, 0, [value])
    return values


def test_a_consumer_that_dies_before_it_commits_does_everything_again(rpc: Rpc, five_records: list[bytes]) -> None:
    done = [value for _, value in Application(rpc).poll()]
    done += [value for _, value in Application(rpc).poll()]
    assert done == five_records * 2


def test_a_consumer_that_commits_before_it_works_loses_what_it_had_in_hand(rpc: Rpc, five_records: list[bytes]) -> None:
    """What automatic commits do if they come before the work."""
    first = Application(rpc)
    in_hand = first.poll()
    first.commit(first.position)
    done = [in_hand[0][1]]  # and dies
    done += [value for _, value in Application(rpc).poll()]
    assert done == [b"0"]


def test_a_commit_after_every_record_repeats_at_most_one(rpc: Rpc, five_records: list[bytes]) -> None:
    done = []
    first = Application(rpc)
    for offset, value in first.poll():
        done.append(value)
        if value == b"2":
            break  # it dies between its work and its commit
        first.commit(offset + 1)
    done += [value for _, value in Application(rpc).poll()]
    assert done == [b"0", b"1", b"2", b"2", b"3", b"4"]


def test_a_sink_that_remembers_offsets_takes_repeats_without_harm(rpc: Rpc, five_records: list[bytes]) -> None:
    """The offset is kept with the result, in one step, and older offsets are refused: an optimistic lock."""
    table: dict[str, Any] = {"sum": 0, "offset": -1}
    for _ in range(3):  # three lives, none of which commits
        for offset, value in Application(rpc).poll():
            if offset > table["offset"]:
                table = {"sum": table["sum"] + int(value), "offset": offset}
    assert table == {"sum": 10, "offset": 4}


def test_offsets_in_the_transaction_of_the_output_repeat_nothing_and_lose_nothing(
    broker: Broker, rpc: Rpc, five_records: list[bytes]
) -> None:
    """Consume, transform, produce: each life dies at another point, and the output holds every record once."""
    broker.create_topic("out")

    def live(dies: str) -> None:
        producer: Producer = rpc.start("app")
        application = Application(rpc)
        for sequence, (offset, value) in enumerate(application.poll()):
            rpc.begin(producer, ("out", 0))
            if dies == "before the output":
                return
            rpc.write("out", 0, [value * 2], producer, sequence=sequence)
            if dies == "after the output":
                return
            until(lambda: rpc.add_offsets(producer, GROUP) is ErrorCode.NONE)
            until(partial(lambda at: rpc.commit_offset(producer, GROUP, (TOPIC, 0), at) is ErrorCode.NONE, offset + 1))
            if dies == "before the commit":
                return
            until(lambda: rpc.end(producer, True) is ErrorCode.NONE)
            if dies == "after the commit":
                return

    for dies in ("before the output", "after the output", "before the commit", "after the commit"):
        live(dies)
    live("never")
    until(lambda: rpc.state("app") == "CompleteCommit")
    assert rpc.read("out") == [value * 2 for value in five_records]
