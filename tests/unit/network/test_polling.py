"""The event loop polls after a turn while requests follow each other quickly, and sleeps otherwise."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tidelog.network.polling import POLL_NS, SLEEPS_MAX, AdaptivePolling

PASS_NS = 2_000
"""What a pass of the loop takes that finds nothing."""
TURN_NS = 20_000


class World:
    """An event loop with a clock: requests come at known times, and a pass of the loop takes a while."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.is_turn_due = False
        self.asleep_ns = 0
        self.turns = 0
        self._soon: list[Callable[[], None]] = []
        self.polling = AdaptivePolling(self._soon.append, lambda: self.is_turn_due, lambda: self.now_ns)

    def run_until(self, request_ns: int) -> bool:
        """Serve the request that comes at a time; whether the loop was awake then."""
        while self._soon and self.now_ns < request_ns:
            self._pass()
        was_awake = bool(self._soon)
        self.asleep_ns += max(request_ns - self.now_ns, 0)
        self.now_ns = max(self.now_ns, request_ns)
        self.is_turn_due = True
        self._pass()
        self.now_ns += TURN_NS
        self.is_turn_due = False
        self.polling.on_turn_end()
        self.turns += 1
        return was_awake

    def run_idle(self) -> int:
        """Passes of the loop until it sleeps."""
        passes = 0
        while self._soon:
            self._pass()
            passes += 1
            assert passes <= 2 * POLL_NS // PASS_NS, "the loop does not go to sleep"
        return passes

    def _pass(self) -> None:
        soon, self._soon[:] = list(self._soon), []
        for callback in soon:
            callback()
        assert len(self._soon) <= 1, "it is called once a pass"
        if not self.is_turn_due:
            self.now_ns += PASS_NS


def after(world: World, gap_ns: int, times: int) -> list[bool]:
    """Requests that come `gap_ns` after the turn before them."""
    return [world.run_until(world.now_ns + gap_ns) for _ in range(times)]


def test_requests_that_come_quickly_find_the_loop_awake() -> None:
    assert all(after(World(), POLL_NS // 2, 1000)[1:])


def test_the_loop_sleeps_when_no_more_requests_come() -> None:
    world = World()
    after(world, POLL_NS // 2, 1000)
    assert world.run_idle() > 1
    assert world.run_idle() == 0


def test_slow_requests_are_hardly_ever_polled_for() -> None:
    world = World()
    after(world, 2 * POLL_NS, 10)
    before_ns, turns = world.polling.polled_ns, world.turns
    after(world, 2 * POLL_NS, 20 * SLEEPS_MAX)
    polled_ns = world.polling.polled_ns - before_ns
    assert polled_ns / (world.turns - turns) < 300


def test_a_client_that_becomes_quick_is_noticed() -> None:
    world = World()
    after(world, 10 * POLL_NS, 5 * SLEEPS_MAX)
    found = after(world, POLL_NS // 2, 2 * SLEEPS_MAX)
    first = found.index(True)
    assert first <= SLEEPS_MAX + 1
    assert all(found[first:])


def test_it_polls_where_most_requests_are_quick_and_sleeps_where_few_are() -> None:
    def share_found(quick_of_ten: int) -> float:
        world = World()
        found = []
        for number in range(20_000):
            # The same order for both, without regularity that a rule could fit by accident.
            gap_ns = POLL_NS // 2 if (number * 7919 >> 3) % 10 < quick_of_ten else 3 * POLL_NS
            found += after(world, gap_ns, 1)
        return sum(found) / len(found)

    assert share_found(9) > 0.7
    assert share_found(1) < 0.02


def test_polled_time_is_counted_and_turns_are_not() -> None:
    world = World()
    after(world, POLL_NS // 2, 1000)
    polled_ns = world.polling.polled_ns
    idle_ns = world.now_ns - world.turns * TURN_NS - world.asleep_ns
    assert idle_ns * 0.9 <= polled_ns <= idle_ns


def test_polls_never_last_longer_than_promised() -> None:
    world = World()
    seen = [0]
    for gap_ns in (POLL_NS // 3, POLL_NS * 5, POLL_NS // 3, POLL_NS * 2) * 50:
        world.run_until(world.now_ns + gap_ns)
        world.run_idle()
        seen.append(world.polling.polled_ns)
    assert max(later - earlier for earlier, later in pairwise(seen)) <= 2 * POLL_NS + 2 * PASS_NS
