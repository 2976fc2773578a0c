"""Sessions of browsers: who is logged in, until when, and the secret of their forms. The time is an argument.

A browser has one session for all clusters, with an entry for each that it is logged in to. A session ends
when it was idle for `idle_s`, and `s_max` after its login in any case. There are at most `count_max`; the one idle for
longest makes room for another, and those that are not logged in before all others.
"""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

View = TypeVar("View")

COUNT_MAX: Final = 500


@dataclass(slots=True)
class Flash:
    """A message that the next page shows once."""

    text: str
    is_problem: bool = False


@dataclass(frozen=True, slots=True)
class Entry(Generic[View]):
    """A login at one cluster: who, and the cluster as this user sees it."""

    user: str
    view: View


@dataclass(slots=True, eq=False)
class Session(Generic[View]):
    """One browser, and its logins by cluster; none before the first."""

    session_id: str = field(repr=False)
    form_secret: str = field(repr=False)
    begun_at: float
    used_at: float
    entries: dict[str, Entry[View]] = field(default_factory=dict)
    flashes: list[Flash] = field(default_factory=list)

    def is_own_form(self, given: str) -> bool:
        """Whether a form carries this session's secret."""
        return hmac.compare_digest(given.encode(), self.form_secret.encode())

    def take_flashes(self) -> list[Flash]:
        """The messages to show now; they are shown once."""
        taken, self.flashes = self.flashes, []
        return taken


class Sessions(Generic[View]):
    """The open sessions by id, least recently used first."""

    def __init__(self, idle_s: float, s_max: float, count_max: int = COUNT_MAX) -> None:
        self._idle_s = idle_s
        self._s_max = s_max
        self._count_max = count_max
        self._open: OrderedDict[str, Session[View]] = OrderedDict()

    def __iter__(self) -> Iterator[Session[View]]:
        return iter(list(self._open.values()))

    def find(self, session_id: str, now: float) -> Session[View] | None:
        """The session of a cookie, unless it has expired; using it keeps it open."""
        session = self._open.get(session_id)
        if session is None or self._is_expired(session, now):
            return None
        session.used_at = now
        self._open.move_to_end(session_id)
        return session

    def is_open(self, session: Session[View], now: float) -> bool:
        """Whether a session has neither ended nor expired; asking does not keep it open."""
        return self._open.get(session.session_id) is session and not self._is_expired(session, now)

    def open(self, now: float, entries: Mapping[str, Entry[View]] | None = None) -> Session[View]:
        """A new session with an id that cannot be guessed. Room is made by `expire`."""
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32), now, now, dict(entries or {}))
        self._open[session.session_id] = session
        return session

    def end(self, session: Session[View]) -> None:
        """Forget a session."""
        self._open.pop(session.session_id, None)

    def expire(self, now: float) -> list[Session[View]]:
        """Remove and return the sessions that have expired, or that must make room."""
        gone = [session for session in self._open.values() if self._is_expired(session, now)]
        alive = [session for session in self._open.values() if not self._is_expired(session, now)]
        # Anyone can open sessions without a login, as many as they like: these go first.
        alive.sort(key=lambda session: bool(session.entries))
        gone += alive[: max(0, len(alive) - self._count_max)]
        for session in gone:
            self.end(session)
        return gone

    def _is_expired(self, session: Session[View], now: float) -> bool:
        return now - session.used_at > self._idle_s or now - session.begun_at > self._s_max
