"""Which topology a broker has: the one place that asks whether there are other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.topology.alone import AlonePlan

if TYPE_CHECKING:
    from tidelog.broker.surroundings import Surroundings
    from tidelog.broker.topology.topology import TopologyPlan


def plan_of(surroundings: Surroundings) -> TopologyPlan:
    """The modules of a cluster are imported only here: a broker without one starts sooner."""
    if not surroundings.is_clustered:
        return AlonePlan()
    from tidelog.broker.topology.member import MemberPlan

    return MemberPlan()
