"""What of transactions only a whole broker shows: its internal topic, its settings, restarts, many at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from tests.compat.transactions.protocol import READ_COMMITTED, Producer, Rpc, until
from tests.integration.raw_client import records_of
from tidelog.broker.coordinators.markers import MarkerWriter
from tidelog.client import Admin, ConfigResource, ConfigSource, ResourceType
from tidelog.records.builder import build_batch
from tidelog.testing import Broker
from tidelog.wire import messages
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import produce as producing

MakeBroker = Callable[..., Broker]


@pytest.fixture
def make_broker() -> Iterator[MakeBroker]:
    made: list[Broker] = []

    def make(**settings: object) -> Broker:
        config = {"transaction.state.log.num.partitions": 2, "offsets.topic.num.partitions": 2}
        broker = Broker({**config, **{name.replace("_", "."): value for name, value in settings.items()}})
        made.append(broker.start())
        broker.create_topic("t", 2)
        return broker

    yield make
    for broker in made:
        broker.stop()


@pytest.fixture
def broker(make_broker: MakeBroker) -> Broker:
    return make_broker()


@pytest.fixture
def rpc(broker: Broker) -> Iterator[Rpc]:
    with Rpc(broker.port) as connection:
        yield connection


def test_the_state_topic_is_made_at_its_first_use_with_kafkas_settings() -> None:
    with (
        Broker({"transaction.state.log.num.partitions": 50}) as broker,
        Rpc(broker.port) as rpc,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        every_topic = messages.MetadataRequest(topics=None)
        assert rpc.client.call(every_topic, 9).topics == []
        rpc.start("id")
        (topic,) = rpc.client.call(every_topic, 9).topics
        assert (topic.name, len(topic.partitions), topic.is_internal) == ("__transaction_state", 50, True)
        resource = ConfigResource(ResourceType.TOPIC, topic.name)
        found = admin.describe_configs([resource])[resource].values()
        settings = {entry.name: entry.value for entry in found if entry.source == ConfigSource.DYNAMIC_TOPIC}
    assert settings == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }


def test_clients_do_not_write_to_the_state_topic(rpc: Rpc) -> None:
    rpc.start("id")
    code, _ = rpc.produce("__transaction_state", 0, [b"x"])
    assert code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_unused_ids_are_forgotten(make_broker: MakeBroker) -> None:
    broker = make_broker(
        transactional_id_expiration_ms=200, transaction_remove_expired_transaction_cleanup_interval_ms=50
    )
    with Rpc(broker.port) as rpc:
        first = rpc.start("id")
        until(lambda: rpc.describe("id").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        assert rpc.end(first, True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert rpc.start("id").producer_id != first.producer_id
        broker.restart()
    with Rpc(broker.port) as rpc:
        until(lambda: rpc.describe("id").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


def test_the_longest_timeout_is_a_setting(make_broker: MakeBroker) -> None:
    broker = make_broker(transaction_max_timeout_ms=5_000)
    with Rpc(broker.port) as rpc:
        rpc.start("id", timeout_ms=5_000)
        assert rpc.init("id", timeout_ms=5_001)[0] is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_verification_can_be_switched_off(make_broker: MakeBroker) -> None:
    broker = make_broker(transaction_partition_verification_enable="false")
    with Rpc(broker.port) as rpc:
        producer = rpc.start("id")
        assert rpc.produce("t", 0, [b"x"], producer) == (ErrorCode.NONE, 0)
        assert rpc.fetch("t").last_stable_offset == 0, "it will never end"


def test_a_topic_that_is_deleted_meanwhile_does_not_keep_its_transaction_from_ending(broker: Broker, rpc: Rpc) -> None:
    broker.create_topic("doomed")
    producer = rpc.start("id")
    rpc.begin(producer, ("t", 0), ("doomed", 0))
    rpc.write("t", 0, [b"x"], producer)
    rpc.write("doomed", 0, [b"x"], producer)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_topics(["doomed"])
    rpc.finish(producer, True)
    assert rpc.read("t") == [b"x"]


def test_everything_is_known_again_after_a_restart(broker: Broker) -> None:
    with Rpc(broker.port) as rpc:
        producer = rpc.start("id")
        rpc.begin(producer, ("t", 0))
        rpc.write("t", 0, [b"1"], producer)
        aborted = rpc.start("other")
        rpc.begin(aborted, ("t", 0))
        rpc.write("t", 0, [b"no"], aborted)
        rpc.finish(aborted, False)
        until(lambda: rpc.find_coordinator("g", 0) is ErrorCode.NONE)
        until(lambda: rpc.add_offsets(producer, "g") is ErrorCode.NONE)
        until(lambda: rpc.commit_offset(producer, "g", ("t", 0), 3) is ErrorCode.NONE)
    broker.restart()
    with Rpc(broker.port) as rpc:
        until(lambda: rpc.state("id") == "Ongoing")
        assert rpc.offset_of("g", ("t", 0), require_stable=True)[0] is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert rpc.fetch("t").last_stable_offset == 0
        rpc.write("t", 0, [b"2"], producer, sequence=1)
        rpc.finish(producer, True)
        assert rpc.read("t") == [b"1", b"2"]
        until(lambda: rpc.offset_of("g", ("t", 0), require_stable=True) == (ErrorCode.NONE, 3))


def test_a_transaction_of_very_many_partitions_ends_in_all_of_them(
    broker: Broker, rpc: Rpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their markers are written in portions, so that others get a turn."""
    monkeypatch.setattr("tidelog.broker.coordinators.transactions._MARKERS_AT_ONCE_MAX", 7)
    broker.create_topic("wide", 40)
    producer = rpc.start("id")
    rpc.begin(producer, *(("wide", index) for index in range(40)))
    rpc.write("wide", 39, [b"x"], producer)
    rpc.finish(producer, True)
    ends = [rpc.end_offset("wide", index, isolation=READ_COMMITTED) for index in range(40)]
    assert ends == [1] * 39 + [2]


def test_many_producers_at_once_do_not_disturb_each_other(broker: Broker) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with Rpc(broker.port) as rpc:
                producer = rpc.start(f"id-{number}")
                for turn in range(10):
                    rpc.begin(producer, ("t", 0), ("t", 1))
                    rpc.write("t", 0, [b"%d" % turn], producer, sequence=turn)
                    rpc.write("t", 1, [b"%d" % turn], producer, sequence=turn)
                    until(partial(lambda turn: rpc.end(producer, turn % 3 != 0) is ErrorCode.NONE, turn))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    with Rpc(broker.port) as rpc:
        for partition in (0, 1):
            until(partial(lambda at: rpc.end_offset("t", at) == 12 * 20, partition))
            until(partial(lambda at: rpc.end_offset("t", at, isolation=READ_COMMITTED) == 12 * 20, partition))
            assert len(rpc.read("t", partition)) == 12 * 6


def transactional_request(
    producer: Producer, batches: list[tuple[int, Producer, int]], topic: str = "t"
) -> messages.ProduceRequest:
    """Batches of one record each: partition, producer and sequence."""
    data = [
        producing.PartitionProduceData(
            index=partition,
            records=build_batch(
                [record._replace(key=b"key") for record in records_of([b"x"])],
                producer_id=who.producer_id,
                producer_epoch=who.epoch,
                base_sequence=sequence,
                is_transactional=True,
            ),
        )
        for partition, who, sequence in batches
    ]
    return messages.ProduceRequest(
        transactional_id=producer.transactional_id,
        acks=-1,
        timeout_ms=10_000,
        topic_data=[producing.TopicProduceData(name=topic, partition_data=data)],
    )


def codes(response: messages.ProduceResponse) -> list[ErrorCode]:
    return [ErrorCode(entry.error_code) for topic in response.responses for entry in topic.partition_responses]


def test_an_open_transaction_gives_no_way_into_an_internal_topic(rpc: Rpc) -> None:
    """Its offsets opened it in the offsets topic; records there are the coordinator's alone to write."""
    producer = rpc.start("id")
    until(lambda: rpc.find_coordinator("group", 0) is ErrorCode.NONE)
    assert rpc.add_offsets(producer, "group") is ErrorCode.NONE
    assert rpc.commit_offset(producer, "group", ("t", 0), 5) is ErrorCode.NONE
    found_codes = set()
    for partition in range(2):
        request = transactional_request(producer, [(partition, producer, 0)], "__consumer_offsets")
        found_codes.update(codes(rpc.client.call(request, 9)))
    assert found_codes == {ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TXN_STATE}
    rpc.finish(producer, is_commit=True)
    assert rpc.offset_of("group", ("t", 0)) == (ErrorCode.NONE, 5)


def test_an_internal_topic_is_not_added_to_a_transaction_and_gets_no_marker(rpc: Rpc) -> None:
    """As in Kafka: offsets join by AddOffsetsToTxn alone, and no client ends a transaction in the coordinator's log."""
    producer = rpc.start("id")
    until(lambda: rpc.find_coordinator("group", 0) is ErrorCode.NONE)
    denied, not_tried = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.OPERATION_NOT_ATTEMPTED
    for topic in ("__transaction_state", "__consumer_offsets"):
        assert rpc.add(producer, (topic, 0), ("t", 0)) == {(topic, 0): denied, ("t", 0): not_tried}
    assert rpc.state("id") == "Empty"


def test_a_request_of_two_producers_is_refused(rpc: Rpc) -> None:
    one, two = rpc.start("one"), rpc.start("two")
    rpc.begin(one, ("t", 0), ("t", 1))
    rpc.begin(two, ("t", 0), ("t", 1))
    request = transactional_request(one, [(0, one, 0), (1, two, 0)])
    assert codes(rpc.client.call(request, 9)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2


def test_one_partition_that_has_not_joined_does_not_keep_the_other_out(rpc: Rpc) -> None:
    producer = rpc.start("id")
    rpc.begin(producer, ("t", 0))
    request = transactional_request(producer, [(0, producer, 0), (1, producer, 0)])
    assert codes(rpc.client.call(request, 9)) == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE]


def test_requests_in_flight_are_taken_in_their_order(rpc: Rpc) -> None:
    producer = rpc.start("id")
    rpc.begin(producer, ("t", 0))
    for sequence in range(5):
        rpc.client.send(transactional_request(producer, [(0, producer, sequence)]), 9)
    answers = [codes(rpc.client.answer(messages.ProduceRequest, 9)) for _ in range(5)]
    assert answers == [[ErrorCode.NONE]] * 5
    rpc.finish(producer, True)
    assert len(rpc.read("t")) == 5


def test_a_transactional_batch_in_a_very_old_request_is_refused(rpc: Rpc) -> None:
    """Versions before 3 have no room for a transactional id."""
    producer = rpc.start("id")
    rpc.begin(producer, ("t", 0))
    request = transactional_request(producer, [(0, producer, 0)])
    assert codes(rpc.client.call(request, 2)) == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_next_transaction_may_begin_as_soon_as_the_end_was_answered(rpc: Rpc, is_commit: bool) -> None:
    """With CONCURRENT_TRANSACTIONS, clients would wait for 20 ms and more after every transaction."""
    producer = rpc.start("id")
    for turn in range(30):
        assert rpc.add(producer, ("t", 0), ("t", 1)) == {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.NONE}
        rpc.write("t", 0, [b"%d" % turn], producer, sequence=turn)
        assert rpc.end(producer, is_commit) is ErrorCode.NONE
        assert len(rpc.read("t")) == (turn + 1 if is_commit else 0), "and it is seen at once"


def test_a_marker_that_cannot_be_written_does_not_keep_the_producer_waiting(
    rpc: Rpc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome is decided; the marker is tried until it is there."""
    write, refusals = MarkerWriter.write, iter([ErrorCode.NOT_ENOUGH_REPLICAS] * 3)

    def refuse_at_first(*arguments: Any) -> None:
        code = next(refusals, None)
        if code is None:
            write(*arguments)
        else:
            arguments[-1](code)

    monkeypatch.setattr(MarkerWriter, "write", refuse_at_first)
    producer = rpc.start("id")
    rpc.begin(producer, ("t", 0))
    rpc.write("t", 0, [b"x"], producer)
    assert rpc.end(producer, True) is ErrorCode.NONE
    assert rpc.state("id") == "PrepareCommit"
    assert rpc.add(producer, ("t", 0)) == {("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS}
    assert rpc.read("t") == []
    until(lambda: rpc.state("id") == "CompleteCommit")
    assert rpc.read("t") == [b"x"]
