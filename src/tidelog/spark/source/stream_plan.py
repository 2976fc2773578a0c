"""The driver's side of a stream: where it begins, how far each micro-batch goes, and which ranges that makes.

`stream_reader` puts Spark's names on it. Offsets come and go as Spark writes them into the checkpoint (`offsets`).
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from tidelog.client.types import TopicPartition
from tidelog.spark.source.admission import Admission, BytesPerOffset
from tidelog.spark.source.cluster_view import View
from tidelog.spark.source.data_loss import DELETED, RECREATED, RETENTION, TRUNCATED, VANISHED, DataLoss, DataLossError
from tidelog.spark.source.offsets import Offsets, from_json, listed, origin_of, to_json, topic_ids_of, with_topic_ids
from tidelog.spark.source.ranges import OffsetRange, split_ranges
from tidelog.spark.source.resolve import check_found, starting_offsets
from tidelog.spark.source.settings import SourceSettings
from tidelog.wire.primitives import NO_UUID

Shown = dict[str, Any]
"""Offsets as the checkpoint has them."""


class StreamPlan:
    """One query's way through its partitions."""

    def __init__(
        self,
        settings: SourceSettings,
        view: View,
        bytes_per_offset: BytesPerOffset,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._view = view
        self._bytes_per_offset = bytes_per_offset
        self._admission = Admission(settings.admission, monotonic)
        self._loss = DataLoss(settings.task.fail_on_data_loss)
        self._initial: Shown | None = None
        self._frozen: Offsets | None = None
        self._latest: Offsets | None = None
        self._topic_ids: dict[str, bytes] = {}
        self._restarted: tuple[Shown, Offsets] | None = None
        """The end of the micro-batch that reads recreated topics, and its start offsets in them."""

    def initial(self) -> Shown:
        """Where a new query begins. The same whenever it is asked: Spark asks twice, and "latest" moves."""
        if self._initial is None:
            frozen = self._frozen
            partitions = self._view.partitions() if frozen is None else sorted(frozen)
            check_found(self._view)
            self._note_topics()
            ends = None if frozen is None else self._frozen_ends
            offsets = starting_offsets(self._settings, self._view, partitions, ends)
            self._initial = to_json(offsets, origin=offsets)
        return self._initial

    def freeze(self) -> None:
        """Trigger.AvailableNow: what comes after this moment is not read by this run."""
        self._frozen = self._view.latest(self._view.partitions())
        self._note_topics()

    def latest(self, start: Shown, *, is_unlimited: bool) -> Shown:
        """The end of the micro-batch from `start` on; `start` itself if there is nothing to do, or not yet."""
        starts = from_json(start)
        ends = self._ends(start, starts)
        self._latest = ends
        begins = self._with_new(starts, ends)
        if not is_unlimited:
            # A run that ends by itself has nothing to wait for.
            if self._frozen is None and self._admission.is_too_early(begins, ends):
                return start
            ends = self._admission.limited(begins, ends, self._bytes_per_offset)
        if ends == starts and self._restarted is None:
            return start
        end: Shown = to_json(ends, origin=starts if origin_of(start) == starts else None)
        end = with_topic_ids(end, self._topic_ids)
        if self._restarted is not None:
            self._restarted = (end, self._restarted[1])
        return end

    def report(self) -> Shown | None:
        """The newest offsets that are known, for progress reports."""
        return None if self._latest is None else to_json(self._latest)

    def ranges(self, start: Shown, end: Shown) -> list[OffsetRange]:
        """The ranges of the micro-batch between two offsets, loss on the way reported."""
        ends = from_json(end)
        # The first end says where the query began; Spark only knows where it would begin now.
        origin = origin_of(end)
        starts = from_json(start) if origin is None else origin
        if self._frozen is not None:
            self._check_frozen(ends)
        self._check_same_topics(end)
        if self._restarted is not None and self._restarted[0] == end:
            starts = {**starts, **self._restarted[1]}
        self._report_vanished(starts, ends)
        begins = {**starts, **self._begin_new(ends.keys() - starts.keys())}
        ranges = [self._range(each, begins[each], ends[each]) for each in sorted(ends) if each in begins]
        settings = self._settings
        return split_ranges(ranges, settings.min_partitions, settings.max_records_per_partition)

    def _ends(self, start: Shown, starts: Offsets) -> Offsets:
        if self._restarted is not None and self._restarted[0] == start:
            self._restarted = None
        if self._frozen is not None:
            self._find_recreated(start, starts)
            return self._frozen
        partitions = self._view.partitions(starts)
        self._find_recreated(start, starts)
        return self._view.latest(partitions, starts)

    def _frozen_ends(self, partitions: Iterable[TopicPartition]) -> Offsets:
        frozen = self._frozen or {}
        return {each: frozen[each] for each in partitions if each in frozen}

    def _with_new(self, starts: Offsets, ends: Offsets) -> Offsets:
        """Where each partition begins; new ones at their first offset, wherever a new query would begin."""
        again = {} if self._restarted is None else self._restarted[1]
        new = ends.keys() - starts.keys()
        limits = self._settings.admission.is_limited
        return {**starts, **(self._view.earliest(sorted(new)) if new and limits else {}), **again}

    def _note_topics(self) -> None:
        self._topic_ids.update(self._view.topic_ids())

    def _check_same_topics(self, end: Shown) -> None:
        """A micro-batch that is repeated after a restart must read from the topics it was planned for."""
        noted = topic_ids_of(end)
        if noted and not self._topic_ids:
            self._view.partitions(from_json(end))
            self._note_topics()
        others = sorted(name for name, each in noted.items() if self._topic_ids.get(name, each) not in (each, NO_UUID))
        if others:
            lost = [each for each in from_json(end) if each.topic in others]
            self._loss.report_text(f"unread records of {listed(lost)} are lost: {RECREATED}")

    def _find_recreated(self, start: Shown, starts: Offsets) -> None:
        """A topic with another id than in the checkpoint is another topic, however its offsets compare."""
        before, now = {**self._topic_ids, **topic_ids_of(start)}, self._view.topic_ids()
        self._note_topics()
        again = [
            name for name, each in now.items() if each != NO_UUID and before.get(name, each) not in (each, NO_UUID)
        ]
        lost = sorted(each for each in starts if each.topic in again)
        if not lost:
            return
        try:
            self._loss.report_text(f"unread records of {listed(lost)} are lost: {RECREATED}")
        except DataLossError:
            # Said again if the query is asked again: nothing was decided.
            self._topic_ids = before
            raise
        self._restarted = ({}, self._view.earliest(lost))

    def _report_vanished(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        gone = starts.keys() - ends.keys()
        if gone:
            self._loss.report_text(f"unread records of {listed(gone)} are lost: {VANISHED}")

    def _begin_new(self, new: Collection[TopicPartition]) -> Offsets:
        if not new:
            return {}
        found = self._view.earliest(sorted(new))
        missing = set(new) - found.keys()
        if missing:
            self._loss.report_text(f"{listed(missing)} cannot be read from the beginning: {DELETED}")
        for each, offset in sorted(found.items()):
            if offset > 0:
                self._loss.report(each, 0, offset, f"the partition is new in this query, and {RETENTION}")
        return found

    def _range(self, where: TopicPartition, start: int, end: int) -> OffsetRange:
        if end < start:
            self._loss.report_text(
                f"{where} ends at offset {end}, but the query continues from {start}: {TRUNCATED}", start - end
            )
        return OffsetRange(*where, start, end)

    def _check_frozen(self, ends: Mapping[TopicPartition, int]) -> None:
        """A run that promised to read up to an end cannot go on without it, whatever `failOnDataLoss` says."""
        now = self._view.latest(sorted(ends))
        gone = ends.keys() - now.keys()
        if gone:
            raise DataLossError(f"{listed(gone)} disappeared while Trigger.AvailableNow read them: {DELETED}")
        for each, end in sorted(ends.items()):
            if now[each] < end:
                raise DataLossError(
                    f"Trigger.AvailableNow must read {each} up to offset {end}, it ends at {now[each]}: {TRUNCATED}"
                )
