"""State records to record batches, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.coordination.decision import ProducerEpoch
from tidelog.coordination.shard import Shard
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.bulk import BulkRecord, assemble_batch
from tidelog.records.compression import Codec
from tidelog.records.control import parse_end_transaction_marker
from tidelog.records.header import CONTROL_BIT, TRANSACTIONAL_BIT


def build_record_batch(records: Sequence[BulkRecord], codec: Codec, producer: ProducerEpoch | None = None) -> bytearray:
    """One batch of state records. With a `producer` it is part of a transaction and has no sequence, as in Kafka."""
    if producer is None:
        return assemble_batch(records, codec=codec).buffer
    producer_id, producer_epoch = producer
    return assemble_batch(
        records, codec=codec, producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True
    ).buffer


def replay_batches(shard: Shard, batches: bytes | memoryview) -> Iterator[int]:
    """Replay batches one by one; yields the offset after each."""
    replay = shard.replay
    for position, header in iterate_batches(batches):
        attributes = header.attributes
        if attributes & CONTROL_BIT:
            for record in iterate_records(batches, position):
                is_commit = parse_end_transaction_marker(record).is_commit
                shard.replay_end_transaction(header.producer_id, header.producer_epoch, is_commit)
        else:
            producer_id = header.producer_id if attributes & TRANSACTIONAL_BIT else -1
            producer_epoch = header.producer_epoch
            for _, _, key, value, _ in iterate_records(batches, position):
                if key is not None:
                    replay(key, value, producer_id, producer_epoch)
        yield header.next_offset
