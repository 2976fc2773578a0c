"""What metrics show of the controller of a cluster, under the names of Kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tidelog.controller import events
from tidelog.metrics import Distribution

if TYPE_CHECKING:
    from tidelog.controller.context import ControllerContext

_EVENTS: Final[dict[str, tuple[type[events.Event], ...]]] = {
    "autoleaderbalance": (events.AutoPreferredReplicaLeaderElection,),
    "controlledshutdown": (events.ControlledShutdown,),
    "controllerchange": (
        events.Startup,
        events.ControllerChange,
        events.Reelect,
        events.RegisterBrokerAndReelect,
        events.Expire,
    ),
    "controllershutdown": (events.Shutdown,),
    "isrchange": (events.AlterPartition, events.IsrChangeNotification),
    "leaderandisrresponsereceived": (events.LeaderAndIsrAnswered, events.ReplicaDeletionsAnswered),
    "leaderelection": (events.BrokerChange, events.BrokerModifications),
    "listpartitionreassignment": (events.ListReassignments,),
    "logdirchange": (events.LogDirEventNotification,),
    "manualleaderbalance": (events.ReplicaLeaderElection,),
    "partitionreassignment": (events.ApiReassignment, events.TreeReassignment),
    "topicchange": (events.TopicChange, events.PartitionModifications),
    "topicdeletion": (events.TopicDeletion,),
    "uncleanleaderelectionenable": (events.UncleanLeaderElectionEnable,),
}
"""The controller's events by the names of Kafka's timers."""


def counts_of(times: Mapping[type[events.Event], Distribution]) -> Mapping[str, list[int]]:
    """How long events took, as counts by duration, by the names of Kafka's timers."""
    return {name: _together([times[kind] for kind in kinds if kind in times]) for name, kinds in _EVENTS.items()}


def _together(times: list[Distribution]) -> list[int]:
    columns = zip(*(each.counts for each in times), strict=True)
    return [sum(column) for column in columns] or Distribution().counts


def figures_of(context: ControllerContext) -> dict[str, int]:
    """What the active controller knows of the cluster."""
    leaderships = context.leaderships
    imbalanced = sum(
        bool(replicas := context.assignment(partition).replicas) and leadership.leader != replicas[0]
        for partition, leadership in leaderships.items()
    )
    return {
        "activebrokercount": len(context.live_brokers) - len(context.shutting_down),
        "fencedbrokercount": len(context.shutting_down),
        "globaltopiccount": len(context.topics),
        "globalpartitioncount": sum(map(len, context.topics.values())),
        "offlinepartitionscount": context.offline_partition_count(),
        "preferredreplicaimbalancecount": imbalanced,
        "topicstodeletecount": len(context.topics_to_delete),
        "topicsineligibletodeletecount": len(context.topics_ineligible_for_deletion),
    }
