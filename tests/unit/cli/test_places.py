"""Where consume begins and ends, and which records are the last."""

import pytest

from tidelog.cli._places import Place, parse_time
from tidelog.cli.consume import newest
from tidelog.cli.errors import CommandError
from tidelog.client.aio.consumer.types import ConsumerRecord, TimestampType
from tidelog.client.types import TopicPartition


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2h", 10_000_000_000 - 7_200_000),
        ("1d12h", 10_000_000_000 - 129_600_000),
        ("now", 10_000_000_000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1700000000000", 1_700_000_000_000),
    ],
)
def test_times_are_so_long_ago_or_a_moment(text, time_ms):
    assert parse_time("--from", text, 10_000_000_000) == time_ms


def test_what_is_no_time_is_named_with_its_option():
    with pytest.raises(CommandError, match="--until 'tomorrow' is neither"):
        parse_time("--until", "tomorrow", 0)


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        (Place(offset="3", from_="2h"), "--offset and --from say where to start"),
        (Place(from_beginning=True, tail=3), "--from-beginning and --tail say where to start"),
        (Place(until="1h", until_end=True), "--until and --until-end say where to stop"),
        (Place(tail=3, until_end=True), "--tail ends at the last record: leave out --until-end"),
        (Place(follow=True), "--follow goes with --tail"),
    ],
)
def test_options_that_exclude_each_other_are_named(place, complaint):
    with pytest.raises(CommandError, match=complaint):
        place.check()


def records(partition: int, *timestamps: int) -> tuple[TopicPartition, list[ConsumerRecord]]:
    made = [
        ConsumerRecord("t", partition, offset, timestamp, None, b"", (), TimestampType.CREATE_TIME, -1)
        for offset, timestamp in enumerate(timestamps)
    ]
    return TopicPartition("t", partition), made


def test_the_newest_records_of_all_partitions_are_in_order_of_time():
    found = dict([records(0, 1, 4, 9), records(1, 2, 3, 8), records(2)])
    assert [each.timestamp for each in newest(found, 4)] == [3, 4, 8, 9]
    assert [each.timestamp for each in newest(found, 100)] == [1, 2, 3, 4, 8, 9]


def test_records_of_a_partition_keep_their_order_where_timestamps_fall():
    found = dict([records(0, 9, 1), records(1, 5)])
    assert [(each.partition, each.offset) for each in newest(found, 3)] == [(0, 0), (0, 1), (1, 0)]
