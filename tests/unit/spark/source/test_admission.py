"""How much of the backlog one micro-batch takes."""

from tests.unit.spark.source.fakes import offsets, tp
from tidelog.spark.source.admission import Admission, limit_bytes, limit_offsets
from tidelog.spark.source.settings import AdmissionSettings


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def _none(starts):
    raise AssertionError("sizes were asked for")


def test_offsets_are_shared_in_proportion_to_the_backlog():
    limited = limit_offsets(100, offsets(t_0=0, t_1=1000), offsets(t_0=300, t_1=1100))
    assert limited == offsets(t_0=75, t_1=1025)


def test_a_share_below_one_is_rounded_up_and_others_down():
    """Or a small partition would starve beside a large one."""
    limited = limit_offsets(10, offsets(t_0=0, t_1=0, t_2=0), offsets(t_0=10_000, t_1=1, t_2=2_600))
    assert limited == offsets(t_0=7, t_1=1, t_2=2)


def test_a_limit_above_the_backlog_takes_everything():
    assert limit_offsets(1000, offsets(t_0=5), offsets(t_0=9)) == offsets(t_0=9)
    assert limit_offsets(1000, offsets(t_0=9), offsets(t_0=9)) == offsets(t_0=9)


def test_bytes_are_shared_likewise():
    ends = limit_bytes(1_000, offsets(t_0=0, t_1=0), offsets(t_0=100, t_1=100), {tp("t-0"): 30.0, tp("t-1"): 10.0})
    assert ends == offsets(t_0=25, t_1=25)


def test_every_partition_advances_however_large_its_records_are():
    ends = limit_bytes(10, offsets(t_0=0, t_1=4), offsets(t_0=100, t_1=4), {tp("t-0"): 1e6})
    assert ends == offsets(t_0=1, t_1=4)


def test_bytes_and_offsets_limit_together_and_only_waiting_partitions_are_measured():
    admission = Admission(AdmissionSettings(max_offsets=50, max_bytes=100), Clock())
    asked = []

    def sizes(starts):
        asked.append(dict(starts))
        return dict.fromkeys(starts, 10.0)

    assert admission.limited(offsets(t_0=5, t_1=7), offsets(t_0=105, t_1=7), sizes) == offsets(t_0=15, t_1=7)
    assert asked == [offsets(t_0=5)]


def test_sizes_are_not_asked_for_without_a_limit_of_bytes():
    admission = Admission(AdmissionSettings(max_offsets=2), Clock())
    assert admission.limited(offsets(t_0=0), offsets(t_0=9), _none) == offsets(t_0=2)


def test_the_first_batch_does_not_wait_and_later_ones_do():
    clock = Clock()
    admission = Admission(AdmissionSettings(min_offsets=10, max_delay_ms=60_000), clock)
    assert not admission.is_too_early(offsets(t_0=0), offsets(t_0=1))
    clock.now += 1
    assert admission.is_too_early(offsets(t_0=1), offsets(t_0=5))
    assert not admission.is_too_early(offsets(t_0=1), offsets(t_0=11))
    clock.now += 59.9
    assert admission.is_too_early(offsets(t_0=11), offsets(t_0=12))
    clock.now += 0.2
    assert not admission.is_too_early(offsets(t_0=11), offsets(t_0=12)), "maxTriggerDelay is over"


def test_without_a_minimum_nothing_waits():
    admission = Admission(AdmissionSettings(), Clock())
    assert not admission.is_too_early(offsets(t_0=0), offsets(t_0=0))
