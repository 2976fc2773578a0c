"""The timers of a member: heartbeat, session and poll interval. Pure: the time is an argument.

Three clocks run: heartbeats go out at their interval, a session ends when the coordinator did not answer for
`session.timeout.ms`, and a member that did not poll for `max.poll.interval.ms` leaves the group.
"""


class HeartbeatClocks:
    """The clocks of one member."""

    __slots__ = ("_interval_ms", "_next_ms", "_poll_by_ms", "_poll_interval_ms", "_session_by_ms", "_session_ms")

    def __init__(self, session_timeout_ms: int, heartbeat_interval_ms: int, max_poll_interval_ms: int) -> None:
        self._session_ms = session_timeout_ms
        self._interval_ms = heartbeat_interval_ms
        self._poll_interval_ms = max_poll_interval_ms
        self._next_ms = self._session_by_ms = self._poll_by_ms = 0

    def restart(self, now_ms: int) -> None:
        """A generation begins: all clocks at zero."""
        self._next_ms = now_ms + self._interval_ms
        self._session_by_ms = now_ms + self._session_ms
        self.polled(now_ms)

    def set_interval(self, now_ms: int, interval_ms: int) -> None:
        """The coordinator sent its heartbeat interval."""
        self._interval_ms = interval_ms
        self._next_ms = now_ms + interval_ms
        self.answered(now_ms)

    def polled(self, now_ms: int) -> None:
        """The application called poll."""
        self._poll_by_ms = now_ms + self._poll_interval_ms

    def sent(self, now_ms: int) -> None:
        """A heartbeat goes out."""
        self._next_ms = now_ms + self._interval_ms

    def answered(self, now_ms: int) -> None:
        """The coordinator answered, whatever it said: it counts the member as alive."""
        self._session_by_ms = now_ms + self._session_ms

    def failed(self, now_ms: int, backoff_ms: int) -> None:
        """No answer; try again sooner than the interval says."""
        self._next_ms = now_ms + backoff_ms

    def is_session_over(self, now_ms: int) -> bool:
        """Whether the session must have expired at the coordinator."""
        return now_ms >= self._session_by_ms

    def is_poll_overdue(self, now_ms: int) -> bool:
        """Whether the application has not polled for max.poll.interval.ms."""
        return now_ms >= self._poll_by_ms

    def due_in_ms(self, now_ms: int) -> int:
        """Milliseconds until the next heartbeat."""
        return max(0, self._next_ms - now_ms)

    def next_event_in_ms(self, now_ms: int) -> int:
        """Milliseconds until any of the clocks has to be looked at."""
        return max(0, min(self._next_ms, self._session_by_ms, self._poll_by_ms) - now_ms)
