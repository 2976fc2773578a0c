"""Transactions over the wire, request by request: what may join, how it ends, and what is said otherwise."""

import pytest

from tests.compat.transactions.conftest import MakeTopic
from tests.compat.transactions.protocol import READ_COMMITTED, READ_UNCOMMITTED, Producer, Rpc, until
from tidelog.wire.errors import ErrorCode


@pytest.fixture
def producer(rpc: Rpc, name: str) -> Producer:
    return rpc.start(name)


# --- partitions ---


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_partitions_join_in_every_version_of_clients(
    rpc: Rpc, producer: Producer, make_topic: MakeTopic, version: int
) -> None:
    topic = make_topic(2)
    added = rpc.add(producer, (topic, 0), (topic, 1), version=version)
    assert added == {(topic, 0): ErrorCode.NONE, (topic, 1): ErrorCode.NONE}
    described = rpc.describe(producer.transactional_id)
    assert (described.transaction_state, described.topics[0].topic) == ("Ongoing", topic)
    assert sorted(described.topics[0].partitions) == [0, 1]


def test_one_partition_that_does_not_exist_keeps_the_others_out(rpc: Rpc, producer: Producer, topic: str) -> None:
    assert rpc.add(producer, (topic, 0), (topic, 9), ("nowhere", 0)) == {
        (topic, 0): ErrorCode.OPERATION_NOT_ATTEMPTED,
        (topic, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert rpc.state(producer.transactional_id) == "Empty"


def test_a_strange_producer_id_has_no_mapping(rpc: Rpc, producer: Producer, topic: str) -> None:
    strange = producer._replace(producer_id=producer.producer_id + 1_000_000)
    assert rpc.add(strange, (topic, 0)) == {(topic, 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert rpc.end(strange, True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert rpc.add_offsets(strange, "g") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_unknown_transactional_id_has_no_mapping(rpc: Rpc, producer: Producer, topic: str) -> None:
    unknown = producer._replace(transactional_id=f"{producer.transactional_id}-unknown")
    assert rpc.add(unknown, (topic, 0)) == {(topic, 0): ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert rpc.end(unknown, True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_empty_transactional_id_is_an_invalid_request(rpc: Rpc, producer: Producer, topic: str) -> None:
    empty = producer._replace(transactional_id="")
    assert rpc.add(empty, (topic, 0)) == {(topic, 0): ErrorCode.INVALID_REQUEST}
    assert rpc.end(empty, True) is ErrorCode.INVALID_REQUEST
    assert rpc.add_offsets(empty, "g") is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "code"), [
    (1, ErrorCode.INVALID_PRODUCER_EPOCH),
    (2, ErrorCode.PRODUCER_FENCED),
    (3, ErrorCode.PRODUCER_FENCED),
])  # fmt: skip
def test_a_fenced_producer_gets_the_error_of_its_version(
    rpc: Rpc, producer: Producer, topic: str, version: int, code: ErrorCode
) -> None:
    rpc.start(producer.transactional_id)
    assert rpc.add(producer, (topic, 0), version=version) == {(topic, 0): code}
    assert rpc.add_offsets(producer, "g", version=version) is code
    assert rpc.end(producer, True, version=version) is code


def test_several_transactions_are_added_to_by_one_request(rpc: Rpc, producer: Producer, topic: str) -> None:
    assert rpc.verify(producer, (topic, 0), verify_only=False) == {(topic, 0): ErrorCode.NONE}
    assert rpc.state(producer.transactional_id) == "Ongoing"


def test_verification_joins_nothing(rpc: Rpc, producer: Producer, make_topic: MakeTopic) -> None:
    topic = make_topic(2)
    rpc.begin(producer, (topic, 0))
    assert rpc.verify(producer, (topic, 0)) == {(topic, 0): ErrorCode.NONE}
    assert rpc.verify(producer, (topic, 1)) == {(topic, 1): ErrorCode.TRANSACTION_ABORTABLE}
    fenced = producer._replace(epoch=producer.epoch + 7)
    assert rpc.verify(fenced, (topic, 0)) == {(topic, 0): ErrorCode.PRODUCER_FENCED}
    assert len(rpc.describe(producer.transactional_id).topics[0].partitions) == 1


# --- the end ---


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_ends_in_every_version(
    rpc: Rpc, producer: Producer, topic: str, version: int, is_commit: bool
) -> None:
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"a", b"b"], producer)
    assert rpc.end(producer, is_commit, version=version) is ErrorCode.NONE
    until(lambda: rpc.state(producer.transactional_id) == ("CompleteCommit" if is_commit else "CompleteAbort"))
    assert rpc.read(topic) == ([b"a", b"b"] if is_commit else [])
    assert rpc.read(topic, isolation=READ_UNCOMMITTED) == [b"a", b"b"]


def test_the_same_end_again_is_no_error_and_the_other_is(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    rpc.finish(producer, True)
    assert rpc.end(producer, True) is ErrorCode.NONE
    assert rpc.end(producer, False) is ErrorCode.INVALID_TXN_STATE
    rpc.begin(producer, (topic, 0))
    rpc.finish(producer, False)
    assert rpc.end(producer, False) is ErrorCode.NONE
    assert rpc.end(producer, True) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("is_commit", [True, False])
def test_there_is_nothing_to_end_before_a_partition_joins(rpc: Rpc, producer: Producer, is_commit: bool) -> None:
    assert rpc.end(producer, is_commit) is ErrorCode.INVALID_TXN_STATE


def test_a_transaction_without_records_still_leaves_a_marker(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    rpc.finish(producer, True)
    fetched = rpc.fetch(topic)
    assert [(header.is_control, header.record_count) for header in fetched.batches] == [(True, 1)]


def test_many_partitions_of_many_topics_end_together(rpc: Rpc, producer: Producer, make_topic: MakeTopic) -> None:
    partitions = [(topic, index) for topic in (make_topic(3), make_topic(2)) for index in range(2)]
    rpc.begin(producer, *partitions)
    for topic, index in partitions:
        rpc.write(topic, index, [b"x"], producer)
    rpc.finish(producer, True)
    assert [rpc.read(topic, index) for topic, index in partitions] == [[b"x"]] * 4


# --- what consumers see ---


def test_an_open_transaction_holds_back_whatever_follows_it(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.write(topic, 0, [b"before"])
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"inside"], producer)
    rpc.write(topic, 0, [b"after"])
    fetched = rpc.fetch(topic)
    assert (fetched.values, fetched.high_watermark, fetched.last_stable_offset) == ([b"before"], 3, 1)
    assert rpc.read(topic, isolation=READ_UNCOMMITTED) == [b"before", b"inside", b"after"]
    assert rpc.end_offset(topic, isolation=READ_COMMITTED) == 1
    assert rpc.end_offset(topic, isolation=READ_UNCOMMITTED) == 3
    rpc.finish(producer, True)
    assert rpc.read(topic) == [b"before", b"inside", b"after"]
    assert rpc.end_offset(topic, isolation=READ_COMMITTED) == 4, "the marker takes an offset"


def test_aborted_records_are_listed_for_the_consumer_to_leave_out(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.write(topic, 0, [b"plain"])
    rpc.begin(producer, (topic, 0))
    first_offset = rpc.write(topic, 0, [b"x", b"y"], producer)
    rpc.finish(producer, False)
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"good"], producer, sequence=2)
    rpc.finish(producer, True)
    fetched = rpc.fetch(topic)
    assert fetched.aborted == [(producer.producer_id, first_offset)]
    assert fetched.values == [b"plain", b"x", b"y", b"good"], "the bytes go out as they are"
    assert rpc.read(topic) == [b"plain", b"good"]
    assert rpc.fetch(topic, isolation=READ_UNCOMMITTED).aborted == []


def test_a_consumer_that_waits_is_woken_by_the_marker(rpc: Rpc, port: int, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"x"], producer)
    with Rpc(port) as consumer:
        from tidelog.wire import messages
        from tidelog.wire.messages import fetch

        wanted = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        request = messages.FetchRequest(
            max_wait_ms=15_000,
            min_bytes=1,
            isolation_level=READ_COMMITTED,
            session_epoch=-1,
            topics=[fetch.FetchTopic(topic=topic, partitions=[wanted])],
        )
        consumer.client.send(request, 12)
        rpc.finish(producer, True)
        consumer.client.socket.settimeout(5)
        answer = consumer.client.answer(messages.FetchRequest, 12).responses[0].partitions[0]
    assert answer.records, "it did not wait for its time to be up"


def test_transactions_of_two_producers_interleave(rpc: Rpc, name: str, topic: str) -> None:
    """The one that was committed is still held back by the other, which began before it."""
    one, two = rpc.start(f"{name}-1"), rpc.start(f"{name}-2")
    rpc.begin(one, (topic, 0))
    rpc.begin(two, (topic, 0))
    rpc.write(topic, 0, [b"1"], one)
    rpc.write(topic, 0, [b"2"], two)
    rpc.write(topic, 0, [b"3"], one, sequence=1)
    rpc.finish(two, True)
    assert rpc.fetch(topic).values == []
    rpc.finish(one, False)
    assert rpc.read(topic) == [b"2"]


# --- who may write ---


@pytest.mark.parametrize(("version", "code"), [
    (9, ErrorCode.INVALID_TXN_STATE),
    (10, ErrorCode.INVALID_TXN_STATE),
    (11, ErrorCode.TRANSACTION_ABORTABLE),
])  # fmt: skip
def test_a_partition_that_has_not_joined_is_not_written_to(
    rpc: Rpc, producer: Producer, make_topic: MakeTopic, version: int, code: ErrorCode
) -> None:
    topic = make_topic(2)
    rpc.begin(producer, (topic, 0))
    assert rpc.produce(topic, 1, [b"x"], producer, version=version) == (code, -1)
    assert rpc.end_offset(topic, 1) == 0


def test_nothing_is_written_before_a_transaction_begins_or_after_it_ended(
    rpc: Rpc, producer: Producer, topic: str
) -> None:
    assert rpc.produce(topic, 0, [b"x"], producer)[0] is ErrorCode.INVALID_TXN_STATE
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"x"], producer)
    rpc.finish(producer, True)
    assert rpc.produce(topic, 0, [b"late"], producer, sequence=1)[0] is ErrorCode.INVALID_TXN_STATE
    assert rpc.read(topic) == [b"x"]


def test_a_fenced_producer_does_not_write(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"x"], producer)
    rpc.start(producer.transactional_id)
    assert rpc.produce(topic, 0, [b"zombie"], producer, sequence=1)[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rpc.read(topic) == []


def test_a_fenced_producer_does_not_write_into_a_partition_it_never_touched(
    rpc: Rpc, producer: Producer, topic: str
) -> None:
    rpc.start(producer.transactional_id)
    assert rpc.produce(topic, 0, [b"zombie"], producer)[0] is ErrorCode.INVALID_PRODUCER_EPOCH


def test_an_unknown_producer_id_does_not_write(rpc: Rpc, producer: Producer, topic: str) -> None:
    strange = producer._replace(producer_id=producer.producer_id + 1_000_000)
    assert rpc.produce(topic, 0, [b"x"], strange)[0] is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_batch_of_a_transaction_needs_a_transactional_id(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    code, _ = rpc.produce(topic, 0, [b"x"], producer, transactional_id=None)
    assert code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_batch_that_is_sent_again_is_there_once(rpc: Rpc, producer: Producer, topic: str) -> None:
    rpc.begin(producer, (topic, 0))
    assert rpc.write(topic, 0, [b"x"], producer) == 0
    assert rpc.write(topic, 0, [b"x"], producer) == 0
    assert rpc.produce(topic, 0, [b"gap"], producer, sequence=5)[0] is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    rpc.finish(producer, True)
    assert rpc.read(topic) == [b"x"]


# --- time ---


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(rpc: Rpc, name: str, topic: str) -> None:
    producer = rpc.start(name, timeout_ms=300)
    rpc.begin(producer, (topic, 0))
    rpc.write(topic, 0, [b"x"], producer)
    until(lambda: rpc.state(name) == "CompleteAbort")
    assert rpc.read(topic) == []
    assert rpc.end(producer, True) is ErrorCode.PRODUCER_FENCED
    assert rpc.produce(topic, 0, [b"y"], producer, sequence=1)[0] is ErrorCode.INVALID_PRODUCER_EPOCH
    assert rpc.start(name).epoch == producer.epoch + 2
