"""Share sessions: their numbers, their limit, and what ends them."""

from __future__ import annotations

import pytest

from tidelog.sharing.sessions import ShareSession, ShareSessions
from tidelog.wire.errors import ApiError, ErrorCode

KEY = ("work", "a")


def test_requests_of_a_session_are_numbered() -> None:
    sessions = ShareSessions(lambda _session, _is_last: None)
    assert sessions.open(KEY, "c", 10, 0).epoch == 1
    assert sessions.advance(KEY, 1, 5).epoch == 2
    with pytest.raises(ApiError) as raised:
        sessions.advance(KEY, 1, 6)
    assert raised.value.code is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.advance(KEY, -1, 7).epoch == 2
    with pytest.raises(ApiError) as raised:
        sessions.advance(("work", "b"), 1, 8)
    assert raised.value.code is ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_session_ends_with_its_connection_and_says_whether_its_group_has_others() -> None:
    closed: list[tuple[tuple[str, str], bool]] = []

    def on_closed(session: ShareSession, is_last: bool) -> None:
        closed.append((session.key, is_last))

    sessions = ShareSessions(on_closed)
    sessions.open(KEY, "c1", 10, 0)
    sessions.open(("work", "b"), "c1", 10, 0)
    sessions.open(("work", "x"), "c2", 10, 0)
    sessions.connection_closed("c1")
    assert sorted(closed) == [(KEY, False), (("work", "b"), False)]
    sessions.connection_closed("c1")
    sessions.connection_closed("c2")
    assert closed[-1] == (("work", "x"), True)
    assert len(sessions) == 0


def test_a_session_that_was_replaced_does_not_end_the_new_one() -> None:
    closed: list[ShareSession] = []
    sessions = ShareSessions(lambda session, _is_last: closed.append(session))
    old = sessions.open(KEY, "c1", 10, 0)
    new = sessions.open(KEY, "c2", 10, 0)
    sessions.close(old)
    sessions.connection_closed("c1")
    assert closed == []
    assert sessions.advance(KEY, 1, 0) is new


def test_there_are_so_many_sessions_and_no_more() -> None:
    sessions = ShareSessions(lambda _session, _is_last: None)
    sessions.open(KEY, "c", 1, 0)
    sessions.open(KEY, "c", 1, 0)
    with pytest.raises(ApiError) as raised:
        sessions.open(("work", "b"), "c", 1, 0)
    assert raised.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
