"""State machines as tables: (state, event) to the state that follows."""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


class IllegalTransitionError(AssertionError):
    """An event that may not happen in this state: a mistake of ours."""


def follow(transitions: Mapping[tuple[State, Event], State], state: State, event: Event, kind: str) -> State:
    """The state after `event`. An event that may not happen to this `kind` of thing raises and changes nothing."""
    following = transitions.get((state, event))
    if following is None:
        raise IllegalTransitionError(f"{event.name} may not happen to a {kind} that is {state.value}")
    return following
