"""Whether a connection is read from: a state machine over the reasons not to. Pure.

A state is the set of reasons that hold, as bits; a connection is read from in the empty one. An event is that a reason
begins or ends. What follows stands in two tables, of all states and reasons:

    reason               begins when                             ends when
    OUTPUT_IS_STUCK      the socket has no room for its replies  all of them are sent
    PIPELINE_IS_FULL     too many of its requests are answered   half of them are
                         by nothing yet
    CHANNEL_IS_FULL      the broker has too many requests        there is room again
    REPLIES_ARE_LARGE    its unsent replies fill the memory      all of them are sent
    IS_MUTED             a frame has come, and a request before  that request has taken effect, or the
                         it has not taken effect, or the client  wait is over
                         has to wait for its quota
    IS_CLOSED            it is closed                            never: no event has any effect then

What a reason asks for is done at its beginning and undone at its end, whatever other reasons hold; reading stops with
the first reason and goes on after the last.
"""

from typing import Final, NamedTuple

OUTPUT_IS_STUCK: Final = 1
PIPELINE_IS_FULL: Final = 2
CHANNEL_IS_FULL: Final = 4
REPLIES_ARE_LARGE: Final = 8
IS_MUTED: Final = 16
IS_CLOSED: Final = 32

READING: Final = 0
"""The state without a reason."""

STOP_READING: Final = 1
START_WRITING: Final = 2
STOP_WRITING: Final = 4
WAIT_FOR_ROOM: Final = 8
GO_ON: Final = 16
"""What to do after an event, as bits. `GO_ON`: hand over the frames that are there, then read."""


class Reason(NamedTuple):
    """What else its beginning and its end ask for."""

    on_begin: int = 0
    on_end: int = 0


REASONS: Final = {
    OUTPUT_IS_STUCK: Reason(on_begin=START_WRITING, on_end=STOP_WRITING),
    PIPELINE_IS_FULL: Reason(),
    CHANNEL_IS_FULL: Reason(on_begin=WAIT_FOR_ROOM),
    REPLIES_ARE_LARGE: Reason(),
    IS_MUTED: Reason(),
    IS_CLOSED: Reason(),
}
STATES: Final = range(2 * IS_CLOSED)


def _begun(state: int, reason: int) -> tuple[int, int]:
    if state & (reason | IS_CLOSED):
        return state, 0
    if reason == IS_CLOSED:
        return state | IS_CLOSED, 0  # the descriptor goes, and with it all that waits for it
    return state | reason, REASONS[reason].on_begin | (STOP_READING if state == READING else 0)


def _ended(state: int, reason: int) -> tuple[int, int]:
    if not state & reason or state & IS_CLOSED:
        return state, 0
    after = state & ~reason
    return after, REASONS[reason].on_end | (GO_ON if after == READING else 0)


BEGINS: Final = {(state, reason): _begun(state, reason) for state in STATES for reason in REASONS}
ENDS: Final = {(state, reason): _ended(state, reason) for state in STATES for reason in REASONS}
"""The state after an event, and what to do."""
