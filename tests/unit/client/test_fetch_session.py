from typing import Any

from tests.unit.client.consumer.clusters import topic_id
from tests.unit.present import present
from tidelog.client.fetch_session import FetchEntry, FetchSession
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def at(partition, offset=0, *, id_=None):
    return FetchEntry(topic_id(partition.topic) if id_ is None else id_, offset, -1, 1000, 0, -1)


def send(session, wanted):
    session.want_only(wanted)
    return session.build()


def named(request):
    return [(topic.topic, part.partition, part.fetch_offset) for topic in request.topics for part in topic.partitions]


def forgotten(request):
    return [(topic.topic, number) for topic in request.forgotten for number in topic.partitions]


def reply(*partitions, session_id=7, error=ErrorCode.NONE):
    topics: dict[Any, Any] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(PartitionData(partition_index=partition.partition))
    return FetchResponse(
        error_code=error,
        session_id=session_id,
        responses=[
            FetchableTopicResponse(topic=name, topic_id=topic_id(name), partitions=each)
            for name, each in topics.items()
        ],
    )


def established(*partitions):
    session = FetchSession()
    send(session, {each: at(each) for each in partitions})
    assert session.accept(reply(*partitions)) is not None
    return session


class TestRequests:
    def test_the_first_request_names_everything(self):
        request = send(FetchSession(), {T0: at(T0), U0: at(U0, 5)})
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert named(request) == [("t", 0, 0), ("u", 0, 5)]

    def test_later_ones_only_what_changed(self):
        session = established(T0, T1)
        request = send(session, {T0: at(T0), T1: at(T1, 9), U0: at(U0)})
        assert (request.session_id, request.session_epoch) == (7, 1)
        assert named(request) == [("t", 1, 9), ("u", 0, 0)]
        assert forgotten(request) == []

    def test_what_is_no_longer_wanted_is_forgotten(self):
        """The broker would go on sending it."""
        request = send(established(T0, T1), {T0: at(T0)})
        assert named(request) == []
        assert forgotten(request) == [("t", 1)]

    def test_a_topic_created_again_is_another_topic(self):
        request = send(established(T0), {T0: at(T0, id_=b"another".ljust(16))})
        assert named(request) == [("t", 0, 0)]
        assert [each.topic_id for each in request.forgotten] == [topic_id("t")]
        assert [each.topic_id for each in request.topics] == [b"another".ljust(16)]

    def test_epochs_count_up_and_skip_zero(self):
        session = established(T0)
        session._epoch = 2**31 - 1
        send(session, {T0: at(T0)})
        session.accept(reply())
        assert send(session, {T0: at(T0)}).session_epoch == 1

    def test_without_topic_ids_the_version_is_held_back(self):
        session = FetchSession()
        send(session, {T0: at(T0, id_=bytes(16))})
        assert session.version_max == 12
        assert session.accept(reply(T0)) is not None

    def test_a_change_that_is_taken_back_is_not_sent(self):
        session = established(T0, T1)
        session.want(T0, None)
        session.want(T0, at(T0))
        session.want(T1, at(T1, 9))
        session.want(T1, at(T1))
        request = session.build()
        assert (named(request), forgotten(request)) == ([], [])

    def test_a_partition_that_is_no_longer_wanted_is_forgotten_once(self):
        session = established(T0, T1)
        session.want(T1, None)
        assert forgotten(session.build()) == [("t", 1)]
        assert session.accept(reply()) == []
        assert forgotten(session.build()) == []

    def test_the_name_of_a_topic_created_again_is_that_of_its_new_id(self):
        session = established(T0)
        session.want(T0, at(T0, id_=b"2" * 16))
        assert session.name_of(b"2" * 16) == "t"
        assert session.name_of(topic_id("t")) == ""

    def test_a_request_that_failed_is_followed_by_one_with_everything_that_is_wanted_by_then(self):
        session = established(T0, T1)
        session.want(T1, at(T1, 5))
        session.build()
        session.fail()
        session.want(T0, at(T0, 7))
        assert named(session.build()) == [("t", 0, 7), ("t", 1, 5)]


class TestReplies:
    def test_partitions_are_named_by_topic_name(self):
        session = FetchSession()
        send(session, {T0: at(T0), U0: at(U0)})
        assert [partition for partition, _ in present(session.accept(reply(T0, U0)))] == [T0, U0]

    def test_an_incremental_reply_may_leave_out_what_has_no_news(self):
        session = established(T0, T1)
        send(session, {T0: at(T0), T1: at(T1)})
        assert [partition for partition, _ in session.accept(reply(T1))] == [T1]

    def test_a_full_reply_may_not(self):
        session = FetchSession()
        send(session, {T0: at(T0), T1: at(T1)})
        assert session.accept(reply(T1)) is None
        assert send(session, {T0: at(T0)}).session_epoch == 0

    def test_what_was_not_asked_for_is_not_believed(self):
        session = established(T0)
        send(session, {T0: at(T0)})
        assert session.accept(reply(U0)) is None

    def test_an_answer_that_names_another_session_counts_and_the_session_goes_on(self):
        """As in Kafka: a connection answers in order, so it is the answer to the last request."""
        session = established(T0)
        send(session, {T0: at(T0)})
        assert [partition for partition, _ in present(session.accept(reply(T0, session_id=8)))] == [T0]
        request = send(session, {T0: at(T0)})
        assert (request.session_id, request.session_epoch) == (7, 2)

    def test_an_answer_without_a_session_counts_and_ends_it(self):
        session = established(T0)
        send(session, {T0: at(T0)})
        assert present(session.accept(reply(T0, session_id=0)))
        request = send(session, {T0: at(T0)})
        assert (request.session_id, request.session_epoch) == (0, 0)

    def test_a_lost_session_begins_again(self):
        session = established(T0)
        send(session, {T0: at(T0)})
        assert session.accept(reply(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0)) is None
        request = send(session, {T0: at(T0)})
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert named(request) == [("t", 0, 0)]

    def test_other_errors_close_the_session_with_the_next_request(self):
        for spoil in (lambda s: s.accept(reply(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)), lambda s: s.fail()):
            session = established(T0)
            send(session, {T0: at(T0)})
            spoil(session)
            request = send(session, {T0: at(T0)})
            assert (request.session_id, request.session_epoch) == (7, 0)
            assert named(request) == [("t", 0, 0)]

    def test_a_broker_without_room_for_sessions_is_asked_in_full_each_time(self):
        session = FetchSession()
        for _ in range(2):
            request = send(session, {T0: at(T0)})
            assert request.session_epoch == 0
            assert session.accept(reply(T0, session_id=0)) is not None
