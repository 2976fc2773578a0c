"""Where queries begin and end."""

import pytest

from tests.unit.spark.source.fakes import SERVERS, FakeView, offsets, stream_settings
from tidelog.spark.options import OptionError
from tidelog.spark.source.batch_reader import plan_batch
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.resolve import check_found, ending_offsets, starting_offsets
from tidelog.spark.source.settings import load_batch_settings


def _view():
    view = FakeView(t_0=(10, 20), t_1=(0, 5))
    view.times = dict(zip(view.logs, [[100 + index for index in range(10)], [100, 200, 300, 400, 500]], strict=True))
    return view


def _starts(**options):
    view = _view()
    return starting_offsets(stream_settings(**options), view, view.partitions())


def _batch(**options):
    return load_batch_settings({**SERVERS, "subscribe": "t", **options})


def _ends(**options):
    view = _view()
    return ending_offsets(_batch(**options), view, view.partitions())


def test_words_mean_the_ends_of_the_log():
    assert _starts(startingOffsets="earliest") == offsets(t_0=10, t_1=0)
    assert _starts(startingOffsets="latest") == offsets(t_0=20, t_1=5)


def test_offsets_are_taken_as_they_are_and_stand_ins_are_looked_up():
    assert _starts(startingOffsets='{"t":{"0":15,"1":-1}}') == offsets(t_0=15, t_1=5)
    assert _starts(startingOffsets='{"t":{"0":-2,"1":3}}') == offsets(t_0=10, t_1=3)


@pytest.mark.parametrize("given", ['{"t":{"0":1}}', '{"t":{"0":1,"1":1,"2":1}}', '{"u":{"0":1,"1":1}}'])
def test_offsets_must_name_exactly_the_partitions_that_are_read(given):
    with pytest.raises(OptionError, match=r"must name exactly the partitions that are read.*t-0, t-1 are read"):
        _starts(startingOffsets=given)
    with pytest.raises(OptionError, match="'startingOffsetsByTimestamp' must name exactly"):
        _starts(startingOffsetsByTimestamp=given)


def test_times_find_the_first_record_at_or_after_them():
    assert _starts(startingTimestamp="105") == offsets(t_0=15, t_1=1)
    assert _starts(startingOffsetsByTimestamp='{"t":{"0":109,"1":350}}') == offsets(t_0=19, t_1=3)


def test_a_time_after_the_last_record_is_an_error_unless_latest_will_do():
    with pytest.raises(OptionError, match=r"no record is at or after the starting time in t-0: .*Strategy' to latest"):
        _starts(startingTimestamp="400")
    assert _starts(startingTimestamp="400", startingOffsetsByTimestampStrategy="latest") == offsets(t_0=20, t_1=3)


def test_an_end_by_time_is_the_end_where_no_record_is_so_late():
    assert _ends(endingTimestamp="400") == offsets(t_0=20, t_1=3)
    assert _ends(endingOffsetsByTimestamp='{"t":{"0":101,"1":900}}') == offsets(t_0=11, t_1=5)
    assert _ends(endingOffsets='{"t":{"0":12,"1":-1}}') == offsets(t_0=12, t_1=5)


def test_a_batch_is_planned_from_start_to_end():
    view = _view()
    assert plan_batch(_batch(), view) == [OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 0, 5)]


def test_a_batch_whose_end_is_before_its_start_is_refused():
    with pytest.raises(OptionError, match="t-0 would be read from offset 18 to 12"):
        plan_batch(_batch(startingOffsets='{"t":{"0":18,"1":0}}', endingOffsets='{"t":{"0":12,"1":5}}'), _view())


def test_what_the_options_name_must_exist():
    view = _view()
    check_found(view)
    view.absent = ["topic 'a'", "topic 'b'"]
    with pytest.raises(OptionError, match="the cluster has no topic 'a' and no topic 'b'"):
        check_found(view)
