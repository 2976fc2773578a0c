"""The handler table's own types: which API is served in which versions by which function.

A `Route` loads its handler's module at the first request, because a broker that only ever produces and fetches should
not pay for the twenty other modules at start-up. The dispatcher reads the table; ApiVersions answers from it, so what
is claimed is what is served.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from tidelog.wire.api_keys import ApiKey
from tidelog.wire.frames import flexible_from
from tidelog.wire.own_messages import OwnApiKey
from tidelog.wire.schema import Message

if TYPE_CHECKING:
    from tidelog.network.connection import Slot

REQUEST_BYTES_MAX: Final = 8 << 20
"""Requests are lists of names and numbers: this many bytes hold a hundred thousand entries, and processing them delays
all other clients. Records, and the metadata and assignments of group members, may be larger."""

REQUEST_ELEMENTS_MAX: Final = 100_000
"""Entries in all lists of one request. They are counted while a large request is read, before objects are made. No
client names as many: a cluster of ZooKeeper's days has 200,000 partitions at most, and a broker a few thousand."""

_REQUEST_BYTES_MAX: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 2**31,
    ApiKey.JOIN_GROUP: 32 << 20,
    ApiKey.SYNC_GROUP: 32 << 20,
    ApiKey.LEADER_AND_ISR: 64 << 20,
    ApiKey.UPDATE_METADATA: 64 << 20,
    ApiKey.STOP_REPLICA: 64 << 20,
}
"""Records are limited by `socket.request.max.bytes`. The metadata and assignments of a group are stored in one record,
which `message.max.bytes` limits to a megabyte unless it is raised. The controller names every partition there is."""

_ELEMENTS_MAX: Final[Mapping[int, int]] = {
    ApiKey.JOIN_GROUP: 1_000,
    ApiKey.LIST_GROUPS: 1_000,
    ApiKey.LIST_TRANSACTIONS: 10_000,
    ApiKey.SYNC_GROUP: 20_000,
    ApiKey.ADD_PARTITIONS_TO_TXN: 20_000,
    ApiKey.WRITE_TXN_MARKERS: 20_000,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 20_000,
    ApiKey.STREAMS_GROUP_HEARTBEAT: 20_000,
    ApiKey.LEADER_AND_ISR: 2_000_000,
    ApiKey.UPDATE_METADATA: 2_000_000,
    ApiKey.STOP_REPLICA: 2_000_000,
}
"""Where a request must be carried out at once, because half of it would be of no use: what takes some milliseconds.
Members name a handful of protocols, groups have six states, and few groups or transactions span 20,000 partitions.
The controller's requests are carried out in slices, and list a few brokers for each of 200,000 partitions."""

_SMALL_REQUEST_BYTES: Final = 2048
"""A request of up to this size is short work, whatever it lists."""
_PACKAGE: Final = "tidelog.broker.handlers"
_MESSAGES: Final = "tidelog.wire.messages"


Handle = Callable[[Any, Any], "Message | Coroutine[Any, Any, Message]"]
"""Takes a decoded request and its context; returns the response now, or a coroutine of it where the work is long or
waits for a thread.

What a coordinator answers later is a `Reply` (`tidelog.broker.coordinators.replies`), from either.
"""

HandleBytes = Callable[[Any, "Slot", bytearray | memoryview, int, int, int, int], None]
"""Takes `(node, slot, buffer, body start, stop, version, correlation id)` and fills the slot when it can."""


class Route:
    """One API: its versions and, once loaded, its functions."""

    __slots__ = (
        "_messages",
        "_target",
        "api_key",
        "checks_access_in_bytes",
        "elements_max",
        "flexible_from",
        "handle",
        "handle_bytes",
        "handled_as_bytes_max",
        "max_version",
        "min_version",
        "request_bytes_max",
        "request_class",
        "response_class",
    )

    def __init__(
        self, api_key: ApiKey | OwnApiKey, versions: tuple[int, int], target: str, messages: str = _MESSAGES
    ) -> None:
        """`target` is a module of the handlers, or `module:function`; `messages` is where its messages are found."""
        self.api_key = api_key
        self.min_version, self.max_version = versions
        self.flexible_from = flexible_from(api_key)
        self.request_class: type[Message]
        self.response_class: type[Message]
        self.handle: Handle | None = None
        self.handle_bytes: HandleBytes | None = None
        self.request_bytes_max = _REQUEST_BYTES_MAX.get(api_key, REQUEST_BYTES_MAX)
        self.handled_as_bytes_max = 2**31
        self.checks_access_in_bytes = False
        """Whether `handle_bytes` checks what a client may do, beside a `handle` that does."""
        self.elements_max = _ELEMENTS_MAX.get(api_key, REQUEST_ELEMENTS_MAX)
        self._target = target
        self._messages = messages

    def load(self) -> None:
        """Import the handler. A module offers `handle_bytes` for the hot path, `handle` for decoded requests, or both.

        With both, small requests take the hot path and larger ones are decoded, in slices if need be. Where an
        authorizer is set, all of them are decoded unless the module has `CHECKS_ACCESS_IN_BYTES`.
        """
        module_name, _, function_name = self._target.partition(":")
        module = import_module(f"{_PACKAGE}.{module_name}")
        if hasattr(module, "handle_bytes") and not function_name:
            self.handle_bytes = module.handle_bytes
            if not hasattr(module, "handle"):
                return
            self.handled_as_bytes_max = _SMALL_REQUEST_BYTES
            self.checks_access_in_bytes = getattr(module, "CHECKS_ACCESS_IN_BYTES", False)
        messages = import_module(self._messages)
        self.request_class = getattr(messages, request_name(self.api_key))
        self.response_class = getattr(messages, request_name(self.api_key).replace("Request", "Response"))
        self.handle = getattr(module, function_name or "handle")

    def refuse_version(self) -> bytes:
        """The body of the reply to a version that is not served, for the one API that has such a reply."""
        module = import_module(f"{_PACKAGE}.{self._target}")
        body: bytes = module.unsupported_version(self).encode(0)
        return body


def request_name(api_key: ApiKey | OwnApiKey) -> str:
    """`CREATE_TOPICS` is asked for with a `CreateTopicsRequest`."""
    return "".join(word.capitalize() for word in api_key.name.split("_")) + "Request"


def versions(first: int, last: int) -> tuple[int, int]:
    return first, last


def route_table(routes: Iterable[Route]) -> Mapping[int, Route]:
    """The table by API key; an API may stand in it once."""
    table: dict[int, Route] = {}
    for route in routes:
        assert route.api_key not in table, f"{route.api_key.name} is routed twice"
        table[int(route.api_key)] = route
    return table
