"""State machines as tables: (state, event) to the state that follows."""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

State = TypeVar("State", bound=Enum)
Event = TypeVar("Event", bound=Enum)


class IllegalTransitionError(AssertionError):
    """An event that is not allowed in this state: a bug."""


def follow(transitions: Mapping[tuple[State, Event], State], state: State, event: Event, kind: str) -> State:
    """The state after `event`. Raises IllegalTransitionError if the table does not allow it; `kind` is for the text."""
    following = transitions.get((state, event))
    if following is None:
        raise IllegalTransitionError(f"{event.name} is not allowed for a {kind} in state {state.value}")
    return following
