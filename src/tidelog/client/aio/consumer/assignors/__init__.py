"""The built-in assignors, by their names in `partition.assignment.strategy`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tidelog.client.aio.consumer.assignors.base import Assignor, RebalanceProtocol
from tidelog.client.aio.consumer.assignors.range import RangeAssignor
from tidelog.client.aio.consumer.assignors.round_robin import RoundRobinAssignor
from tidelog.client.aio.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from tidelog.client.errors import ClientConfigError

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "choose_protocol",
    "make_assignors",
]

_JAVA: Final = "org.apache.kafka.clients.consumer."

BUILT_IN: Final[Mapping[str, Callable[[], Assignor]]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    # A properties file written for the Java client works here, too.
    f"{_JAVA}RangeAssignor": RangeAssignor,
    f"{_JAVA}RoundRobinAssignor": RoundRobinAssignor,
    f"{_JAVA}StickyAssignor": StickyAssignor,
    f"{_JAVA}CooperativeStickyAssignor": CooperativeStickyAssignor,
}


def make_assignors(strategies: Iterable[str | Assignor | Callable[[], Assignor]]) -> tuple[Assignor, ...]:
    """Assignors from names, objects or classes, each name once, in order of preference."""
    assignors: dict[str, Assignor] = {}
    for strategy in strategies:
        assignor = _make(strategy)
        if assignor.name in assignors:
            raise ClientConfigError(f"partition.assignment.strategy names {assignor.name!r} twice")
        assignors[assignor.name] = assignor
    if not assignors:
        raise ClientConfigError("partition.assignment.strategy is empty; set at least one assignor")
    return tuple(assignors.values())


def choose_protocol(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """The highest protocol that all of them can be used with."""
    shared = frozenset.intersection(*(assignor.protocols for assignor in assignors))
    if not shared:
        raise ClientConfigError("partition.assignment.strategy names assignors that share no rebalance protocol")
    return max(shared, key=lambda protocol: protocol.value)


def _make(strategy: str | Assignor | Callable[[], Assignor]) -> Assignor:
    if isinstance(strategy, str):
        make = BUILT_IN.get(strategy)
        if make is None:
            known = ", ".join(name for name in BUILT_IN if not name.startswith(_JAVA))
            raise ClientConfigError(
                f"partition.assignment.strategy={strategy!r} is unknown; the built-in assignors are {known}"
            )
        return make()
    made = strategy() if callable(strategy) else strategy
    if not isinstance(getattr(made, "name", None), str) or not hasattr(made, "protocols"):
        raise ClientConfigError(f"partition.assignment.strategy has {strategy!r}, which is not an assignor")
    return made
