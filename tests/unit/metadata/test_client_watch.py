"""A client that works is kept, whatever its server does; one that does not is renewed once, and then given up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tidelog.metadata.client_watch import SILENT_TIMEOUTS_MAX, ClientWatch, Verdict

KEEP, RENEW, GIVE_UP = Verdict.KEEP, Verdict.RENEW, Verdict.GIVE_UP


@dataclass
class Watched:
    """A client whose thread gives signs with the time, and the rule, which is asked once in a session timeout."""

    watch: ClientWatch = field(default_factory=ClientWatch)
    signs: int = 0
    is_alive: bool = True
    is_connected: bool = True
    is_stuck: bool = False

    def after_a_timeout(self, signs: int = 40) -> Verdict:
        if self.is_alive and not self.is_stuck:
            self.signs += signs
        return self.watch.judge(is_alive=self.is_alive, signs=self.signs, is_connected=self.is_connected)

    def end(self) -> None:
        self.is_alive = False

    def get_stuck(self) -> None:
        self.is_stuck = True

    def be_replaced(self) -> None:
        self.is_alive, self.is_stuck, self.is_connected, self.signs = True, False, False, 0


def until_it_is_noticed(client: Watched) -> tuple[int, Verdict]:
    for timeouts in range(1, 100):
        verdict = client.after_a_timeout()
        if verdict is not KEEP:
            return timeouts, verdict
    raise AssertionError("never noticed")


def test_a_client_that_looks_for_a_server_is_kept_however_long_there_is_none() -> None:
    client = Watched()
    assert client.after_a_timeout() is KEEP
    client.is_connected = False
    assert {client.after_a_timeout(signs=1) for _ in range(1000)} == {KEEP}


@pytest.mark.parametrize(
    ("fail", "timeouts"), [(Watched.end, 1), (Watched.get_stuck, SILENT_TIMEOUTS_MAX)], ids=["ended", "stuck"]
)
def test_a_client_that_fails_is_renewed_and_if_that_fails_too_given_up(
    fail: Callable[[Watched], None], timeouts: int
) -> None:
    client = Watched()
    assert client.after_a_timeout() is KEEP
    fail(client)
    assert until_it_is_noticed(client) == (timeouts, RENEW)
    client.be_replaced()
    assert client.after_a_timeout() is KEEP
    fail(client)
    assert until_it_is_noticed(client) == (timeouts, GIVE_UP)


@pytest.mark.parametrize("fail", [Watched.end, Watched.get_stuck])
def test_a_replacement_that_was_connected_may_be_replaced_again(fail: Callable[[Watched], None]) -> None:
    client = Watched()
    for _ in range(5):
        client.after_a_timeout()
        fail(client)
        assert until_it_is_noticed(client)[1] is RENEW
        client.be_replaced()
        assert client.after_a_timeout() is KEEP
        client.is_connected = True
        assert client.after_a_timeout() is KEEP


def test_a_process_that_was_stopped_for_long_gets_time_to_give_a_sign() -> None:
    """The first question after it goes on may come before the client's thread ran."""
    client = Watched()
    client.after_a_timeout()
    assert client.after_a_timeout(signs=0) is KEEP
    assert client.after_a_timeout() is KEEP
    assert client.after_a_timeout(signs=0) is KEEP
