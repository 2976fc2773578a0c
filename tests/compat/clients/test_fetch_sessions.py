"""Incremental fetch sessions (KIP-227) with topics by id (KIP-516), as modern consumers hold them."""

import threading
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka.admin import AdminClient

from tests.compat.clients.batches import batch, numbered, read
from tests.compat.clients.brokers import Broker
from tests.compat.clients.raw import RawConnection, fetch_request, produce
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

NEW_SESSION = 0
NO_SESSION = -1


@pytest.fixture
def connection(broker: Broker) -> Iterator[RawConnection]:
    with RawConnection(broker) as opened:
        yield opened


def topic_id(connection: RawConnection, topic: str) -> bytes:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    (described,) = connection.call(request, 12, MetadataResponse).topics
    assert described.error_code == 0
    return described.topic_id


class Session:
    """The consumer's side of a session, on topics by id (version 13 on) or by name."""

    def __init__(self, connection: RawConnection, topic: bytes | str, version: int) -> None:
        self._connection = connection
        self._version = version
        self._named = {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}
        self.session_id = 0
        self.epoch = NEW_SESSION

    def fetch(
        self, offsets: dict[int, int] | None = None, *, forget: Sequence[int] = (), max_wait_ms: int = 0
    ) -> FetchResponse:
        """Send what changed; the epoch counts on."""
        partitions = [
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in (offsets or {}).items()
        ]
        request = FetchRequest(
            min_bytes=1,
            max_wait_ms=max_wait_ms,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(**self._named, partitions=partitions)] if partitions else [],
            forgotten_topics_data=[ForgottenTopic(**self._named, partitions=list(forget))] if forget else [],
        )
        response = self._connection.call(request, self._version, FetchResponse)
        if not response.error_code:
            self.session_id = response.session_id
            self.epoch = self.epoch + 1 if self.epoch >= 0 else self.epoch
        return response


def partitions(response: FetchResponse) -> dict[int, PartitionData]:
    assert response.error_code == 0
    return {partition.partition_index: partition for topic in response.responses for partition in topic.partitions}


@pytest.fixture(params=[7, 11, 12, 13, 15, 17], ids=lambda version: f"v{version}")
def session(request: pytest.FixtureRequest, broker: Broker, connection: RawConnection, topic_name: str) -> Session:
    """A session on three partitions after its first full response."""
    broker.create_topic(topic_name, 3)
    key = topic_id(connection, topic_name) if request.param >= 13 else topic_name
    opened = Session(connection, key, request.param)
    assert set(partitions(opened.fetch({0: 0, 1: 0, 2: 0}))) == {0, 1, 2}
    assert opened.session_id > 0
    return opened


def test_only_partitions_with_news_are_answered(session: Session, connection: RawConnection, topic_name: str) -> None:
    assert partitions(session.fetch()) == {}
    produce(connection, topic_name, batch(numbered(2)), partition=1)
    answered = partitions(session.fetch())
    assert list(answered) == [1]
    assert [record.value for record in read(answered[1].records)] == [b"0", b"1"]
    assert answered[1].high_watermark == 2


def test_what_was_not_read_comes_again(session: Session, connection: RawConnection, topic_name: str) -> None:
    """The offset moves when the consumer says so, not when it was sent something."""
    produce(connection, topic_name, batch(numbered(2)), partition=2)
    assert list(partitions(session.fetch())) == [2]
    assert list(partitions(session.fetch())) == [2]
    assert partitions(session.fetch({2: 2})) == {}


def test_a_forgotten_partition_is_silent(session: Session, connection: RawConnection, topic_name: str) -> None:
    session.fetch(forget=[1])
    produce(connection, topic_name, batch(numbered(2)), partition=1)
    assert partitions(session.fetch()) == {}
    assert list(partitions(session.fetch({1: 0}))) == [1]


def test_a_wrong_epoch_is_refused_and_leaves_the_session_alone(session: Session) -> None:
    session.epoch += 5
    assert session.fetch().error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.epoch -= 5
    assert session.fetch().error_code == 0


def test_an_unknown_session_is_refused(session: Session) -> None:
    """After a restart, or when it was evicted; the client then begins a new one."""
    session.session_id += 1
    assert session.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_ends_with_its_last_epoch(session: Session) -> None:
    known = session.session_id
    session.epoch = NO_SESSION
    assert session.fetch({0: 0}).session_id == 0
    session.session_id, session.epoch = known, 2
    assert session.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_may_begin_without_partitions(broker: Broker, connection: RawConnection, topic: str) -> None:
    session = Session(connection, topic, 12)
    assert session.fetch().session_id > 0
    assert list(partitions(session.fetch({0: 0}))) == [0]


def test_a_waiting_session_wakes(session: Session, broker: Broker, topic_name: str) -> None:
    """Only the partition that has something is in the answer."""

    def write() -> None:
        with RawConnection(broker) as writer:
            produce(writer, topic_name, batch(numbered(1)), partition=0)

    timer = threading.Timer(0.05, write)
    timer.start()
    answered = partitions(session.fetch(max_wait_ms=15_000))
    timer.join()
    assert list(answered) == [0]


def test_a_deleted_topic_is_an_error(session: Session, servers: str, topic_name: str) -> None:
    """The session knows which topic its id stood for, so this is no unknown id."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic_name])[topic_name].result(10)
    codes = {partition.error_code for partition in partitions(session.fetch()).values()}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_topic_that_has_the_name_now_is_not_taken_for_the_old_one(
    session: Session, broker: Broker, connection: RawConnection, servers: str, topic_name: str
) -> None:
    """By id a client learns that it was another topic; by name it cannot."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic_name])[topic_name].result(10)
    broker.create_topic(topic_name, 3)
    produce(connection, topic_name, batch(numbered(1)), partition=0)
    answer = partitions(session.fetch({0: 0}))[0]
    assert answer.error_code == (ErrorCode.INCONSISTENT_TOPIC_ID if "topic_id" in session._named else 0)


def test_a_fetch_that_waits_is_not_given_records_of_another_topic(
    broker: Broker, connection: RawConnection, servers: str, topic: str
) -> None:
    """Its topic is deleted and created again while it waits."""
    known = topic_id(connection, topic)
    connection.send(fetch_request(known, 0, max_wait_ms=15_000), 13)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic])[topic].result(10)
    response = connection.receive(FetchResponse, 13)
    expected = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert partitions(response)[0].error_code in expected
    broker.create_topic(topic)
    produce(connection, topic, batch(numbered(1)))
    session = Session(connection, known, 13)
    session.epoch = NO_SESSION
    assert partitions(session.fetch({0: 0}))[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_unknown_id_is_an_error(connection: RawConnection) -> None:
    session = Session(connection, b"\x07" * 16, 13)
    session.epoch = NO_SESSION
    assert partitions(session.fetch({0: 0}))[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_session_does_not_change_from_names_to_ids(
    broker: Broker, connection: RawConnection, topic_name: str
) -> None:
    broker.create_topic(topic_name)
    session = Session(connection, topic_name, 12)
    session.fetch({0: 0})
    session._version = 13
    assert session.fetch().error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("version", range(4, 18))
def test_every_version_of_fetch_says_the_same(version: int, connection: RawConnection, topic: str) -> None:
    produce(connection, topic, batch(numbered(3)))
    key = topic_id(connection, topic) if version >= 13 else topic
    session = Session(connection, key, version)
    session.epoch = NO_SESSION
    answer = partitions(session.fetch({0: 1}))[0]
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 3, 3)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert [record.offset for record in read(answer.records)] == [0, 1, 2]
    assert answer.aborted_transactions is None
    assert answer.preferred_read_replica == -1
