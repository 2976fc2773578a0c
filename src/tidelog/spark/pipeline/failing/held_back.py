"""How far a pipeline may read its retry topics now: up to what is due. Pure.

All records of a retry topic wait equally long, so reading stops at the first record that is not due; the cluster finds
it by timestamp. No record is read early or twice, and other partitions are not delayed. The stream reader uses it in
place of the cluster.
"""

from collections.abc import Callable, Iterable, Mapping

from tidelog.client.types import TopicPartition
from tidelog.spark.source.cluster_view import View

Offsets = dict[TopicPartition, int]


class HeldBackView:
    """A view of the cluster that hides records which are not due."""

    def __init__(
        self,
        view: View,
        delays_ms: Mapping[str, int],
        parked_topic: str | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._view = view
        self._delays_ms = delays_ms
        self._parked_topic = parked_topic
        self._now_ms = now_ms

    def partitions(self, known: Iterable[TopicPartition] = ()) -> list[TopicPartition]:
        """The partitions to read now. The parked topic is read by offsets, even if a pattern names it."""
        return [each for each in self._view.partitions(known) if each.topic != self._parked_topic]

    def topic_ids(self) -> Mapping[str, bytes]:
        """The ids of the topics, as they were when `partitions` was asked last."""
        return self._view.topic_ids()

    def missing(self) -> list[str]:
        """The named topics that do not exist."""
        return self._view.missing()

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The first offsets."""
        return self._view.earliest(partitions)

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offsets at or after times."""
        return self._view.at_times(times)

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        """Where reading ends for now; never before what is `known` to have been read."""
        ends = self._view.latest(partitions, known)
        held = {each: end for each, end in ends.items() if each.topic in self._delays_ms}
        before = known or {}
        if held:
            ends.update(self._due(held, before))
        return ends

    def _due(self, ends: Offsets, before: Mapping[TopicPartition, int]) -> Offsets:
        now_ms = self._now_ms()
        # A record of exactly the delay's age is due: the first one that is not is a millisecond younger.
        times = {each: now_ms - self._delays_ms[each.topic] + 1 for each in ends}
        young = self._view.at_times(times)
        due: Offsets = {}
        for each, end in ends.items():
            first = young.get(each)
            capped = end if first is None else min(end, first)
            due[each] = max(capped, min(end, before.get(each, 0)))
        return due
