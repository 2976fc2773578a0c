from tests.unit.client.aio.producer.parts import Bench
from tidelog.client.aio.producer.batch import (
    ProducerBatch,
    ProducerState,
    RecordMetadata,
    RecordsRefusedError,
    estimated_bytes,
    next_sequence,
)
from tidelog.client.errors import ApiError
from tidelog.records.bulk import assemble_batch
from tidelog.records.header import check_crc, read_header
from tidelog.wire.errors import ErrorCode


def batch_of(count: int, timestamp: int = 5) -> ProducerBatch:
    batch = ProducerBatch("topic", 3, 0, 10_000)
    batch.records = [(timestamp + index, None, b"v", ()) for index in range(count)]
    batch.seal(bytearray)
    return batch


def test_metadata_counts_from_the_base_offset_and_keeps_timestamps() -> None:
    batch = batch_of(3)
    batch.complete(100)
    assert batch.metadata_of(2) == RecordMetadata("topic", 3, 102, 7)
    assert batch.records == [], "a delivery that is kept must not keep the records"


def test_log_append_time_replaces_the_timestamps_and_no_offset_stays_none() -> None:
    batch = batch_of(3)
    batch.complete(-1, 999)
    assert batch.metadata_of(2) == RecordMetadata("topic", 3, -1, 999)


def test_callbacks_come_in_order_once_and_at_once_when_late() -> None:
    batch = batch_of(3)
    outcomes: list[object] = []
    for index in range(3):
        batch.add_callback(index, lambda metadata, error: outcomes.append(metadata and metadata.offset))
    batch.complete(10)
    batch.add_callback(1, lambda metadata, error: outcomes.append("late"))
    assert outcomes == [10, 11, 12, "late"]


def test_a_failing_callback_does_not_stop_the_others() -> None:
    batch = batch_of(2)
    outcomes: list[object] = []
    batch.add_callback(0, lambda metadata, error: 1 / 0)
    batch.add_callback(1, lambda metadata, error: outcomes.append(error))
    error = ValueError("no")
    batch.fail(error)
    assert outcomes == [error]


def test_only_the_records_that_were_at_fault_get_the_reason() -> None:
    batch = batch_of(2)
    batch.fail(RecordsRefusedError(ApiError(ErrorCode.INVALID_RECORD, "whole"), {1: "no key"}))
    assert "because of other records" in str(batch.error_of(0))
    assert str(batch.error_of(1)) == "INVALID_RECORD: no key"


def test_a_divided_batch_is_done_when_its_parts_are() -> None:
    batch = batch_of(10)
    parts = batch.split(40)
    assert len(parts) > 1
    outcomes: list[object] = []
    for index in range(10):
        batch.add_callback(index, lambda metadata, error: outcomes.append(error or (metadata and metadata.offset)))
    batch.divide(parts)
    error = ValueError("no")
    parts[0].fail(error)
    assert not batch.is_done
    for number, part in enumerate(parts[1:]):
        part.seal(bytearray)
        part.complete(100 * number)
    assert batch.is_done
    assert outcomes[: parts[0].count] == [error] * parts[0].count
    assert outcomes[parts[0].count] == 0
    assert len(outcomes) == 10


def test_every_part_is_smaller_even_if_the_limit_is_large() -> None:
    assert len(batch_of(2).split(1 << 30)) == 2


def test_a_prebuilt_batch_can_be_divided_as_well() -> None:
    made = assemble_batch([(1, b"k", b"v", (("h", b"1"),)) for _ in range(4)])
    batch = ProducerBatch("topic", 0, 0, 0)
    batch.seal_prebuilt(made.buffer, 4)
    parts = batch.split(60)
    assert [record for part in parts for record in part.records] == [(1, b"k", b"v", (("h", b"1"),))] * 4


def test_a_prebuilt_batch_is_stamped_where_it_is_if_that_can_be_written_to() -> None:
    made = assemble_batch([(1, b"k", b"v", ())])
    for data, is_taken_over in ((memoryview(bytearray(made.buffer)), True), (bytes(made.buffer), False)):
        before = bytes(data)
        batch = ProducerBatch("topic", 0, 0, 0)
        batch.seal_prebuilt(data, 1)
        batch.state = ProducerState(7, 4, 0)
        stamped = batch.encoded()
        assert check_crc(stamped, 0, read_header(stamped))
        assert read_header(stamped).producer_id == 7
        assert (bytes(data) != before) is is_taken_over


def test_a_renumbered_batch_is_stamped_when_it_is_sent_again() -> None:
    batch = batch_of(2)
    batch.encoded()
    batch.state = ProducerState(7, 4, 0)
    assert batch.was_renumbered
    assert read_header(batch.encoded()).producer_epoch == 4
    assert not batch.was_renumbered


def test_estimates_are_not_below_what_records_take() -> None:
    records = [
        (1_700_000_000_000, b"k" * size, b"v" * size, (("name" * size, b"x" * size),) * headers)
        for size in (0, 1, 60, 5000)
        for headers in (0, 1, 3)
    ]
    for record in records:
        made = assemble_batch([records[0], record])
        assert estimated_bytes(record) + estimated_bytes(records[0]) >= made.raw_bytes - 4


def test_sequences_wrap() -> None:
    assert next_sequence(0x7FFFFFFF, 1) == 0


def test_the_accumulator_distinguishes_batches_by_identity() -> None:
    bench = Bench(1, batch_size=50)
    assert bench.add(bytes(30)) is not bench.add(bytes(30))
    assert len(bench.accumulator.incomplete) == 2
