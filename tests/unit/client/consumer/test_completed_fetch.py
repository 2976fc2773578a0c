import json

import pytest

from tests.unit.client.consumer.batches import batch, marker
from tidelog.client.aio.consumer.completed_fetch import CompletedFetch, Decoding
from tidelog.client.aio.consumer.errors import CorruptRecords, DeserializationFailed
from tidelog.client.errors import ApiError
from tidelog.client.types import TopicPartition
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.header import TimestampType
from tidelog.records.legacy import convert_down
from tidelog.records.record import Record
from tidelog.wire.errors import ErrorCode

T0 = TopicPartition("t", 0)


def fetch(*parts, offset=0, aborted=None, **decoding):
    return CompletedFetch(T0, offset, b"".join(parts), Decoding(**decoding), aborted)


def offsets(records):
    return [record.offset for record in records]


class TestTaking:
    def test_records_come_as_many_as_wanted_and_the_rest_later(self):
        taken = fetch(batch(0, 3), batch(3, 3))
        assert offsets(taken.take(4)) == [0, 1, 2, 3]
        assert taken.next_offset == 4
        assert not taken.is_done
        assert offsets(taken.take(4)) == [4, 5]
        assert taken.is_done
        assert taken.take(4) == []

    def test_a_record_has_all_its_parts(self):
        (record,) = fetch(batch(7, epoch=4), offset=7).take(1)
        assert record.topic_partition == T0
        assert (record.offset, record.timestamp, record.key, record.value) == (7, 1007, b"k", b"v7")
        assert record.headers == ()
        assert record.timestamp_type is TimestampType.CREATE_TIME
        assert record.leader_epoch == 4

    def test_records_before_the_offset_asked_for_are_left_out(self):
        """Brokers send whole batches."""
        assert offsets(fetch(batch(0, 10), offset=6).take(9)) == [6, 7, 8, 9]

    @pytest.mark.parametrize("length", [-1, 0, 13])
    def test_a_first_batch_of_impossible_length_is_an_error_and_no_empty_fetch(self, length):
        """An empty one would be fetched again for ever."""
        taken = fetch(batch(4)[:8] + length.to_bytes(4, "big", signed=True) + batch(4)[12:], offset=4)
        assert taken.is_failed
        with pytest.raises(CorruptRecords, match="offset 4"):
            taken.take(1)

    def test_batches_before_one_of_impossible_length_are_returned(self):
        taken = fetch(batch(0, 2), batch(2)[:8] + bytes(4) + batch(2)[12:])
        assert offsets(taken.take(9)) == [0, 1]
        assert (taken.is_done, taken.next_offset) == (True, 2)

    @pytest.mark.parametrize("codec", list(Codec))
    def test_codecs_make_no_difference(self, codec):
        assert offsets(fetch(batch(0, 50, codec=codec), offset=10).take(99)) == list(range(10, 50))

    def test_the_epoch_of_the_last_batch_goes_with_the_position(self):
        taken = fetch(batch(0, 1, epoch=2), batch(1, 1, epoch=5))
        taken.take(1)
        assert taken.next_epoch == 2
        taken.take(1)
        assert taken.next_epoch == 5

    def test_gaps_left_by_compaction_are_skipped(self):
        records = [Record(offset, 1, None, b"v") for offset in (3, 5, 9)]
        compacted = build_batch(records, base_offset=3)
        taken = fetch(compacted, offset=4)
        assert offsets(taken.take(9)) == [5, 9]
        assert taken.next_offset == 10

    def test_a_batch_that_the_broker_cut_off_is_left_for_the_next_fetch(self):
        taken = fetch(batch(0, 2), batch(2, 2)[:-1])
        assert taken.end_offset == 2
        assert offsets(taken.take(9)) == [0, 1]

    def test_where_the_next_fetch_begins_is_known_at_once(self):
        assert fetch(batch(0, 3), batch(3, 4)).end_offset == 7

    @pytest.mark.parametrize("magic", [0, 1])
    def test_older_formats_are_read_too(self, magic):
        old = convert_down(batch(5, 3), magic)
        taken = fetch(old, batch(8, 1), offset=6)
        assert [(record.offset, record.value) for record in taken.take(9)] == [(6, b"v6"), (7, b"v7"), (8, b"v8")]
        assert taken.end_offset == 9


class TestTransactions:
    def test_markers_are_passed_over_and_the_position_with_them(self):
        taken = fetch(batch(0, 2, producer=9), marker(2, 9, commit=True))
        assert offsets(taken.take(9)) == [0, 1]
        assert taken.next_offset == 3

    def test_aborted_records_are_left_out(self):
        taken = fetch(
            batch(0, 1),
            batch(1, 2, producer=9),
            batch(3, 1, producer=8),
            marker(4, 9, commit=False),
            marker(5, 8, commit=True),
            aborted=[(9, 1)],
        )
        assert offsets(taken.take(9)) == [0, 3]
        assert taken.next_offset == 6

    def test_what_the_same_producer_writes_next_is_another_transaction(self):
        taken = fetch(batch(0, 1, producer=9), marker(1, 9, commit=False), batch(2, 1, producer=9), aborted=[(9, 0)])
        assert offsets(taken.take(9)) == [2]

    def test_without_read_committed_they_are_returned(self):
        assert offsets(fetch(batch(0, 1, producer=9), marker(1, 9, commit=False)).take(9)) == [0]


class TestFaults:
    def broken(self, first):
        data = bytearray(batch(first, 2))
        data[-1] ^= 1
        return bytes(data)

    def test_what_comes_before_a_broken_batch_is_returned_first(self):
        taken = fetch(batch(0, 2), self.broken(2))
        assert offsets(taken.take(9)) == [0, 1]
        for _ in range(2):
            with pytest.raises(CorruptRecords, match="offset 2"):
                taken.take(9)
        assert taken.next_offset == 2

    def test_checksums_need_not_be_checked(self):
        assert len(fetch(self.broken(0), check_crcs=False).take(9)) == 2

    def test_an_error_of_the_broker_is_raised(self):
        failed = CompletedFetch.failed(T0, 5, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"))
        assert failed.is_failed
        with pytest.raises(ApiError):
            failed.take(1)


class TestDeserializers:
    def test_keys_and_values_become_what_they_mean(self):
        decoding = {"key": lambda topic, data, _: (topic, data), "value": lambda _, data, __: data.decode()}
        (record,) = fetch(batch(0), **decoding).take(1)
        assert (record.key, record.value) == (("t", b"k"), "v0")

    def test_a_record_that_cannot_be_read_stops_the_partition_there(self):
        """The application may seek past it; nothing is skipped behind its back."""
        good = build_batch([Record(0, 1, None, b"1"), Record(1, 1, None, b"{"), Record(2, 1, None, b"2")])
        taken = fetch(good, value=lambda _, data, __: json.loads(data))
        assert [record.value for record in taken.take(9)] == [1]
        for _ in range(2):
            with pytest.raises(DeserializationFailed, match="offset 1") as raised:
                taken.take(9)
        assert (raised.value.partition, raised.value.offset) == (T0, 1)
        assert taken.next_offset == 1
        assert not taken.is_done


class TestBatches:
    def test_all_that_is_left_comes_as_it_was_stored(self):
        parts = batch(0, 3), batch(3, 3)
        taken = fetch(*parts, offset=1).take_batches()
        assert bytes(taken.data) == b"".join(parts)
        assert (taken.topic, taken.partition, taken.first_offset, taken.next_offset) == ("t", 0, 1, 6)

    def test_a_batch_that_was_begun_continues_where_it_stopped(self):
        parts = batch(0, 3), batch(3, 3)
        half = fetch(*parts)
        half.take(4)
        taken = half.take_batches()
        assert bytes(taken.data) == parts[1]
        assert (taken.first_offset, taken.next_offset) == (4, 6)
        assert half.is_done

    def test_aborted_transactions_that_still_matter_are_named(self):
        parts = batch(0, 1), batch(1, 1, producer=9), marker(2, 9, commit=False), batch(3, 1), batch(4, 1, producer=8)
        aborted = [(9, 1), (8, 4)]
        assert fetch(*parts, aborted=aborted).take_batches().aborted == ((9, 1), (8, 4))
        begun = fetch(*parts, aborted=aborted)
        assert offsets(begun.take(2)) == [0, 3]
        assert begun.take_batches().aborted == ((8, 4),)

    def test_the_epoch_of_the_last_one_goes_with_the_position(self):
        taken = fetch(batch(0, 1, epoch=2), batch(1, 1, epoch=5))
        taken.take_batches()
        assert taken.next_epoch == 5

    def test_broken_ones_are_not_handed_out(self):
        with pytest.raises(CorruptRecords):
            fetch(TestFaults().broken(0)).take_batches()
