"""Retries of batches from before the last snapshot, which keeps one batch of each producer."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.storage.logs import append, make_log, reopen
from tidelog.storage.log import Log
from tidelog.storage.segment.batches import iterate_headers
from tidelog.wire.errors import ApiError, ErrorCode

PRODUCER = 7


def closed_and_opened(log: Log) -> Log:
    log.close()
    return reopen(log)


@pytest.mark.parametrize("segment_bytes", [1 << 20, 200])
def test_all_five_batches_under_way_are_known_after_a_restart(tmp_path: Path, segment_bytes: int) -> None:
    """A producer that saw no answer sends all five again: each gets the offset it has, in one segment or many."""
    log = make_log(tmp_path, segment_bytes=segment_bytes)
    for sequence in range(8):
        append(log, b"value", producer_id=PRODUCER, sequence=sequence)
    log = closed_and_opened(log)
    retries = [append(log, b"value", producer_id=PRODUCER, sequence=sequence) for sequence in range(3, 8)]
    assert [(info.first_offset, info.is_duplicate) for info in retries] == [(n, True) for n in range(3, 8)]
    assert append(log, b"next", producer_id=PRODUCER, sequence=8).first_offset == 8


def test_a_batch_older_than_the_last_five_stays_out_of_order(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    for sequence in range(8):
        append(log, b"value", producer_id=PRODUCER, sequence=sequence)
    log = closed_and_opened(log)
    with pytest.raises(ApiError) as caught:
        append(log, b"value", producer_id=PRODUCER, sequence=2)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_was_never_written_is_not_taken_for_a_retry(tmp_path: Path) -> None:
    """A producer that is not known may begin anywhere; what it had before is not in the log, and we do not say so."""
    log = make_log(tmp_path)
    append(log, b"value", producer_id=PRODUCER, sequence=5)
    log = closed_and_opened(log)
    with pytest.raises(ApiError) as caught:
        append(log, b"value", producer_id=PRODUCER, sequence=4)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_batches_of_an_older_epoch_are_not_recalled(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    append(log, b"old", producer_id=PRODUCER, producer_epoch=0, sequence=0)
    append(log, b"new", producer_id=PRODUCER, producer_epoch=1, sequence=0)
    append(log, b"new", producer_id=PRODUCER, producer_epoch=1, sequence=1)
    log = closed_and_opened(log)
    assert append(log, b"new", producer_id=PRODUCER, producer_epoch=1, sequence=0).first_offset == 1


def test_the_log_is_read_once_for_all_producers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log(tmp_path)
    for sequence in range(3):
        for producer_id in range(20):
            append(log, b"value", producer_id=producer_id, sequence=sequence)
    log = closed_and_opened(log)
    from tidelog.storage.log import _lookup

    reads: list[Any] = []

    def reading(*arguments: Any) -> Any:
        reads.append(arguments)
        return iterate_headers(*arguments)

    monkeypatch.setattr(_lookup, "iterate_headers", reading)
    for producer_id in range(20):
        assert append(log, b"value", producer_id=producer_id, sequence=1).first_offset == 20 + producer_id
    assert len(reads) == 1
