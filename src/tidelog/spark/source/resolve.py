"""Resolves start and end options to offsets of partitions. The readers call it on the driver.

Offsets and times given by partition must name exactly the partitions that are read: one forgotten, or misspelt, would
otherwise be read from somewhere the user did not mean.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from tidelog.client.types import TopicPartition
from tidelog.spark.options import OptionError
from tidelog.spark.source.cluster_view import View
from tidelog.spark.source.limits import AtOffsets, AtTime, AtTimes, Earliest, Latest, Limit
from tidelog.spark.source.offsets import EARLIEST, LATEST, Offsets, listed
from tidelog.spark.source.settings import SourceSettings

LatestOffsets = Callable[[Iterable[TopicPartition]], Offsets]


def check_found(view: View) -> None:
    """Called for a new query. Raises OptionError where the options name what the cluster does not have."""
    missing = view.missing()
    if missing:
        raise OptionError(f"the cluster has no {' and no '.join(missing)}: check the name, or create it first")


def starting_offsets(
    settings: SourceSettings, view: View, partitions: Collection[TopicPartition], latest: LatestOffsets | None = None
) -> Offsets:
    """Where a query begins. `latest` stands in for the cluster's where the ends were frozen before."""
    ends = latest or view.latest
    limit = settings.starting
    times = _times_of(limit, partitions, "startingOffsetsByTimestamp")
    if times is None:
        return _without_times(limit, view, partitions, ends, "startingOffsets")
    found = view.at_times(times)
    missing = [each for each, offset in found.items() if offset is None]
    if missing and not settings.latest_if_no_record:
        raise OptionError(
            f"no record is at or after the starting time in {listed(missing)}: choose an earlier time, or set "
            "'startingOffsetsByTimestampStrategy' to latest to begin at the end"
        )
    return _with_ends(found, ends(missing) if missing else {})


def ending_offsets(settings: SourceSettings, view: View, partitions: Collection[TopicPartition]) -> Offsets:
    """Where a batch query ends; at the end of partitions that have no record at or after a time."""
    limit = settings.ending
    times = _times_of(limit, partitions, "endingOffsetsByTimestamp")
    if times is None:
        return _without_times(limit, view, partitions, view.latest, "endingOffsets")
    found = view.at_times(times)
    missing = [each for each, offset in found.items() if offset is None]
    return _with_ends(found, view.latest(missing) if missing else {})


def _with_ends(found: Mapping[TopicPartition, int | None], ends: Offsets) -> Offsets:
    at_times = {each: offset for each, offset in found.items() if offset is not None}
    return {**at_times, **ends}


def _times_of(limit: Limit, partitions: Collection[TopicPartition], option: str) -> Offsets | None:
    if isinstance(limit, AtTime):
        return dict.fromkeys(partitions, limit.timestamp_ms)
    if isinstance(limit, AtTimes):
        _check_names(option, limit.timestamps_ms, partitions)
        return dict(limit.timestamps_ms)
    return None


def _without_times(
    limit: Limit, view: View, partitions: Collection[TopicPartition], latest: LatestOffsets, option: str
) -> Offsets:
    if isinstance(limit, Earliest):
        return view.earliest(partitions)
    if isinstance(limit, Latest):
        return latest(partitions)
    assert isinstance(limit, AtOffsets), "times are resolved elsewhere"
    _check_names(option, limit.offsets, partitions)
    named = {each: offset for each, offset in limit.offsets.items() if offset >= 0}
    for stand_in, look_up in ((EARLIEST, view.earliest), (LATEST, latest)):
        wanted = [each for each, offset in limit.offsets.items() if offset == stand_in]
        if wanted:
            named.update(look_up(wanted))
    return named


def _check_names(option: str, given: Mapping[TopicPartition, int], partitions: Collection[TopicPartition]) -> None:
    if set(given) != set(partitions):
        raise OptionError(
            f"option {option!r} must name exactly the partitions that are read: it names {listed(given)}, "
            f"and {listed(partitions)} are read"
        )
