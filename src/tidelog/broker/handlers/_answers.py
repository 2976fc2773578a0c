"""Answers to a list of names in which some may be repeated."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

REPEATS_MAX: Final = 10
"""Of one request. Clients repeat a name by accident; a thousand repetitions are an attack."""

Answer = TypeVar("Answer")


class Answers(Generic[Answer]):
    """The answers of one response, in the order of the request.

    Kafka answers a name as often as the request has it. So does this, with the same object and without
    the work, as long as repetitions are few; further ones are left out.
    """

    __slots__ = ("_by_key", "_repeats_left", "all")

    def __init__(self) -> None:
        self.all: list[Answer] = []
        self._by_key: dict[Hashable, Answer] = {}
        self._repeats_left = REPEATS_MAX

    def add(self, key: Hashable, make: Callable[[], Answer]) -> None:
        """Answer what `key` stands for; `make` is called if it was not answered before."""
        if not self.repeat(key):
            self.put(key, make())

    def put(self, key: Hashable, answer: Answer) -> None:
        """Add the answer to something new."""
        self._by_key[key] = answer
        self.all.append(answer)

    def repeat(self, key: Hashable) -> bool:
        """Answer again what was answered before, if it may be; False for something new."""
        answer = self._by_key.get(key)
        if answer is None:
            return False
        if self._repeats_left:
            self._repeats_left -= 1
            self.all.append(answer)
        return True
