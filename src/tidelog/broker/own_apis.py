"""APIs of Tidelog's own: served beside Kafka's, and left out of ApiVersions (`tidelog.wire.own_messages`)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from tidelog.broker.routes import Route
from tidelog.wire.api_keys import ApiKey

_COMPACT_TOPICS = 20_000


class _OwnRoute(Route):
    """A route whose messages are ours. Its handler answers errors itself, partition by partition."""

    __slots__ = ("_module", "_request")

    def __init__(self, api_key: int, versions: tuple[int, int], module: str, request: str) -> None:
        # The table goes by number; an enumeration of Kafka's keys cannot hold ours.
        super().__init__(cast("ApiKey", api_key), versions, module)
        self._module = module
        self._request = request

    def load(self) -> None:
        messages = import_module("tidelog.wire.own_messages")
        self.decode = getattr(messages, self._request).decode
        self.handle = import_module(f"tidelog.broker.handlers.{self._module}").handle


def own_handlers() -> Mapping[int, Route]:
    """A fresh table."""
    route = _OwnRoute(_COMPACT_TOPICS, (0, 0), "compact_topics", "CompactTopicsRequest")
    return {_COMPACT_TOPICS: route}
