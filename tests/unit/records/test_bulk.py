from tidelog.records.batch import iterate_records
from tidelog.records.bulk import assemble_batch
from tidelog.records.header import read_header


def test_the_batch_lies_at_the_start_of_the_buffer_that_was_lent() -> None:
    lent = bytearray(b"\xff" * 500)
    made = assemble_batch([(5, b"k", b"v", (("h", None),))], lambda size: lent if size <= 500 else bytearray(size))
    assert made.buffer is lent
    assert made.buffer[made.size_bytes :] == b"\xff" * (500 - made.size_bytes)
    (record,) = iterate_records(bytes(lent[: made.size_bytes]))
    assert (record.timestamp, record.key, record.value, record.headers) == (5, b"k", b"v", (("h", None),))


def test_lengths_and_offsets_beyond_the_table_are_written_as_well() -> None:
    records = [(7, bytes(3000), bytes(20_000), ()) for _ in range(2100)]
    made = assemble_batch(records)
    header = read_header(made.buffer)
    assert header.record_count == 2100
    last = list(iterate_records(bytes(made.buffer)))[-1]
    assert (last.offset, last.key, last.value) == (2099, bytes(3000), bytes(20_000))


def test_the_greatest_timestamp_counts_wherever_it_is() -> None:
    made = assemble_batch([(10, None, b"", ()), (30, None, b"", ()), (20, None, b"", ())])
    header = read_header(made.buffer)
    assert (header.base_timestamp, header.max_timestamp) == (10, 30)
    assert not made.has_one_timestamp
