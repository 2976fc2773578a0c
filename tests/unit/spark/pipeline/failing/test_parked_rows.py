"""What is seen of the parked topic, without a cluster: runs among records, and ranges that are read as one."""

import pyarrow as pa

from tidelog.client.retry import headers
from tidelog.spark.pipeline.failing.parked_rows import RunFound, close_together, only_in, runs_of

PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def _records(*rows: tuple[int, bytes | None, str | None, object]) -> pa.RecordBatch:
    """Offset, key, pipeline and sequence; a header of the record's own before them."""
    pairs = [
        None
        if pipeline is None
        else [("own", b"7"), (headers.PIPELINE, pipeline.encode()), (headers.SEQUENCE, str(sequence).encode())]
        for _, _, pipeline, sequence in rows
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array([row[0] for row in rows], pa.int64()), pa.array([row[1] for row in rows], pa.binary()),
         pa.array(pairs, PAIRS)],
        ["offset", "key", "headers"],
    )  # fmt: skip


def test_a_run_ends_where_key_number_offset_or_pipeline_change() -> None:
    found = runs_of(
        _records(
            (5, b"a", "p", 1), (6, b"a", "p", 2), (8, b"a", "p", 3), (9, b"b", "p", 4), (10, b"b", "q", 5),
            (11, b"b", "q", 7), (12, None, None, 0), (13, None, None, 0), (14, b"b", "q", "x"),
        )
    )  # fmt: skip
    assert list(found) == [
        RunFound("p", b"a", 5, 1, 2),
        RunFound("p", b"a", 8, 3, 1),
        RunFound("p", b"b", 9, 4, 1),
        RunFound("q", b"b", 10, 5, 1),
        RunFound("q", b"b", 11, 7, 1),
        RunFound(None, None, 12, -1, 1),
        RunFound(None, None, 13, -1, 1),
        RunFound("q", b"b", 14, -1, 1),
    ]
    assert list(runs_of(_records())) == []


def test_ranges_close_to_each_other_are_fetched_as_one_and_what_lies_between_is_left_out() -> None:
    spans = [(0, 10, 20), (0, 22, 23), (0, 5000, 5001), (1, 5002, 5003)]
    assert close_together(spans) == [spans[:2], spans[2:3], spans[3:]]
    rows = pa.RecordBatch.from_arrays([pa.array(range(5, 30), pa.int64())], ["offset"])
    assert only_in(rows, spans[:2]).column("offset").to_pylist() == [*range(10, 20), 22]
