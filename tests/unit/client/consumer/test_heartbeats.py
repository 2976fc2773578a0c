from tidelog.client.aio.consumer.heartbeats import HeartbeatClocks


def clocks(now_ms=0):
    made = HeartbeatClocks(session_timeout_ms=100, heartbeat_interval_ms=30, max_poll_interval_ms=500)
    made.restart(now_ms)
    return made


def test_heartbeats_are_due_at_their_interval():
    ticking = clocks()
    assert ticking.due_in_ms(0) == 30
    assert ticking.due_in_ms(31) == 0
    ticking.sent(31)
    assert ticking.due_in_ms(31) == 30


def test_a_failed_heartbeat_is_repeated_sooner():
    ticking = clocks()
    ticking.sent(30)
    ticking.failed(35, backoff_ms=5)
    assert ticking.due_in_ms(35) == 5


def test_a_session_lasts_from_answer_to_answer():
    ticking = clocks()
    assert not ticking.is_session_over(99)
    ticking.answered(60)
    assert not ticking.is_session_over(159)
    assert ticking.is_session_over(160)


def test_who_does_not_poll_is_stuck_however_its_heart_beats():
    ticking = clocks()
    ticking.answered(499)
    assert not ticking.is_poll_overdue(499)
    assert ticking.is_poll_overdue(500)
    ticking.polled(500)
    assert not ticking.is_poll_overdue(999)


def test_the_next_look_is_at_whichever_clock_comes_first():
    ticking = clocks()
    assert ticking.next_event_in_ms(0) == 30
    ticking.sent(480)
    ticking.answered(480)
    assert ticking.next_event_in_ms(480) == 20, "the poll is due before the heartbeat"
    assert ticking.next_event_in_ms(600) == 0
