"""What a follower's session asks for: everything at first, then what changed, whatever else it has."""

from __future__ import annotations

from tidelog.replication.fetch_session_client import FetchEntry, FetchSessionClient, SessionRequest
from tidelog.wire.errors import ErrorCode

SESSION = 77
FIRST_ID, SECOND_ID = b"1" * 16, b"2" * 16


def entry(offset: int, topic_id: bytes = FIRST_ID) -> FetchEntry:
    return FetchEntry(topic_id, offset, 0, 1 << 20, 3, 3)


def named(request: SessionRequest) -> dict[tuple[str, int], int]:
    """The offset of each partition that a request names."""
    return {
        (topic.topic, partition.partition): partition.fetch_offset
        for topic in request.topics
        for partition in topic.partitions
    }


def forgotten(request: SessionRequest) -> list[tuple[bytes, int]]:
    return [(topic.topic_id, index) for topic in request.forgotten for index in topic.partitions]


def opened(*keys: tuple[str, int]) -> FetchSessionClient:
    """A session that the leader has opened, with these partitions at offset 0."""
    session = FetchSessionClient()
    for key in keys:
        session.want(key, entry(0))
    assert named(session.build()) == dict.fromkeys(keys, 0)
    assert session.on_response(ErrorCode.NONE, SESSION)
    return session


def test_a_request_names_the_partitions_that_changed() -> None:
    session = opened(("a", 0), ("a", 1), ("a", 2))
    session.want(("a", 1), entry(5))
    request = session.build()
    assert (request.session_id, request.session_epoch) == (SESSION, 1)
    assert named(request) == {("a", 1): 5}
    assert session.on_response(ErrorCode.NONE, SESSION)
    assert named(session.build()) == {}


def test_a_change_that_is_taken_back_is_not_sent() -> None:
    session = opened(("a", 0), ("a", 1))
    session.want(("a", 0), None)
    session.want(("a", 0), entry(0))
    session.want(("a", 1), entry(9))
    session.want(("a", 1), entry(0))
    request = session.build()
    assert (named(request), forgotten(request)) == ({}, [])


def test_a_partition_that_is_no_longer_wanted_is_forgotten_once() -> None:
    session = opened(("a", 0), ("a", 1))
    session.want(("a", 0), None)
    assert forgotten(session.build()) == [(FIRST_ID, 0)]
    session.on_response(ErrorCode.NONE, SESSION)
    assert forgotten(session.build()) == []


def test_a_topic_that_was_created_again_replaces_the_old_one() -> None:
    session = opened(("a", 0))
    session.want(("a", 0), entry(0, SECOND_ID))
    request = session.build()
    assert named(request) == {("a", 0): 0}
    assert forgotten(request) == [(FIRST_ID, 0)]
    assert session.name_of(SECOND_ID) == "a"
    assert session.name_of(FIRST_ID) == ""


def test_a_session_that_got_lost_begins_again_with_everything() -> None:
    session = opened(("a", 0), ("a", 1))
    session.want(("a", 1), entry(5))
    session.build()
    session.on_failure()
    session.want(("a", 0), entry(7))
    request = session.build()
    assert (request.session_id, request.session_epoch) == (SESSION, 0), "the old session is given up"
    assert named(request) == {("a", 0): 7, ("a", 1): 5}
