"""Sessions end by themselves, and only their own forms are theirs."""

from tidelog.console.sessions import Entry, Sessions


def test_a_session_lives_while_it_is_used_but_not_for_ever():
    sessions = Sessions[str](idle_s=10, s_max=25)
    session = sessions.open(0.0, {"": Entry("alice", "view")})
    for now in (9.0, 18.0, 25.0):
        assert sessions.find(session.session_id, now) is session
    assert sessions.find(session.session_id, 25.1) is None
    assert sessions.expire(25.1) == [session]
    assert list(sessions) == []


def test_an_idle_session_has_expired():
    sessions = Sessions[str](idle_s=10, s_max=100)
    session = sessions.open(0.0)
    assert sessions.find(session.session_id, 10.5) is None
    assert sessions.find("other", 0.0) is None


def test_the_sessions_idle_for_longest_make_room():
    sessions = Sessions[str](idle_s=100, s_max=100, count_max=2)
    first, second, third = (sessions.open(float(each)) for each in range(3))
    assert sessions.find(first.session_id, 5.0) is first
    assert sessions.expire(6.0) == [second]
    assert set(map(id, sessions)) == {id(first), id(third)}


def test_a_flood_of_browsers_that_never_log_in_ends_no_login():
    sessions = Sessions[str](idle_s=100, s_max=100, count_max=3)
    logged_in = sessions.open(0.0, {"": Entry("alice", "view")})
    strangers = [sessions.open(1.0 + each) for each in range(10)]
    assert sessions.expire(20.0) == strangers[:8]
    assert sessions.find(logged_in.session_id, 21.0) is logged_in


def test_a_form_of_another_session_is_refused():
    sessions = Sessions[str](idle_s=10, s_max=10)
    mine, other = sessions.open(0.0), sessions.open(0.0)
    assert mine.is_own_form(mine.form_secret)
    for given in (other.form_secret, "", "ü"):
        assert not mine.is_own_form(given)


def test_the_repr_of_a_session_has_neither_its_id_nor_its_secret():
    session = Sessions[str](idle_s=10, s_max=10).open(0.0, {"": Entry("alice", "view")})
    assert "alice" in repr(session)
    assert session.session_id not in repr(session)
    assert session.form_secret not in repr(session)
