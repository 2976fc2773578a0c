"""Record batches for tests, as brokers would send them."""

from tidelog.records.builder import build_batch, build_end_transaction_marker
from tidelog.records.compression import Codec
from tidelog.records.record import Record


def batch(first: int, count: int = 1, *, epoch: int = 0, codec: Codec = Codec.NONE, producer: int = -1) -> bytes:
    """A batch of `count` records from offset `first` on, values telling their offsets."""
    records = [Record(offset, 1000 + offset, b"k", b"v%d" % offset) for offset in range(first, first + count)]
    return build_batch(
        records,
        base_offset=first,
        codec=codec,
        partition_leader_epoch=epoch,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        is_transactional=producer >= 0,
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    """The end of a transaction."""
    return build_end_transaction_marker(
        is_commit=commit,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=1000,
        base_offset=offset,
    )
