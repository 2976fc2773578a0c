"""What a task does: fetch its range, decode it with the kernels, yield Arrow batches. Runs in Spark's Python workers.

Both readers are pickled into tasks with nothing but what `read_range` needs.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from tidelog.client.aio.consumer.types import FetchedBatches
from tidelog.client.arrow.reading import decode_columns, make_decoder
from tidelog.client.cluster import Cluster
from tidelog.records.errors import CorruptRecordError
from tidelog.records.kernels.arrow_decode import Decoder
from tidelog.spark.clients import CLUSTERS, Kept, connect
from tidelog.spark.sentences import plainly
from tidelog.spark.source.arrow_rows import ArrowRows
from tidelog.spark.source.columns import HEADERS, Projection
from tidelog.spark.source.data_loss import DataLoss
from tidelog.spark.source.fetching import RangeFetcher
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.settings import TaskSettings
from tidelog.spark.worker import settle


class RangePartition(InputPartition):
    """The offsets of one task, and the delegation token that it logs in with, if there is one."""

    def __init__(self, wanted: OffsetRange, security: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.security = security


def read_partition(
    partition: InputPartition, settings: TaskSettings, projection: Projection
) -> Iterator[pa.RecordBatch]:
    """The rows of one task. Spark plans a partition of its own, without offsets, where there is nothing to read."""
    if isinstance(partition, RangePartition):
        with plainly():
            yield from read_range(partition.wanted, settings.with_security(partition.security), projection)
        settle("read")


def read_range(
    wanted: OffsetRange, settings: TaskSettings, projection: Projection, kept: Kept[Cluster] = CLUSTERS
) -> Iterator[pa.RecordBatch]:
    """The records of a range, at most 10,000 a batch."""
    cluster = kept.get(settings, lambda: _connected(settings))
    fetcher = RangeFetcher(settings, wanted, cluster, DataLoss(settings.fail_on_data_loss))
    rows = ArrowRows(projection, wanted.topic, wanted.partition)
    decoder, take_headers = _decoder_for(projection)
    try:
        for chunk in fetcher.chunks():
            try:
                for columns in decode_columns(chunk, decoder):
                    yield from rows.batches(columns, wanted.end, take_headers())
            except CorruptRecordError as error:
                raise _located(error, chunk) from error
            del chunk
    finally:
        if fetcher.is_reply_due:
            # The task was ended early, by a limit or a failure. The next one shall not wait for the rest of the answer.
            kept.drop(cluster)


def _connected(settings: TaskSettings) -> Cluster:
    # The driver has reached the cluster, so a broker that does not answer now is one that restarts.
    return connect(
        settings.client.bootstrap_servers,
        client_id=settings.client.client_id,
        request_timeout_ms=settings.client.request_timeout_ms,
        api_timeout_ms=settings.client.api_timeout_ms,
        first_contact_ms=settings.poll_timeout_ms,
        security=settings.client.security,
    )


def _decoder_for(projection: Projection) -> tuple[Decoder, Callable[[], pa.Array | None]]:
    """A decoder, and what gives the column of headers of the records it gave last; None if it makes none."""
    if projection.wanted.headers:
        try:
            from tidelog.spark.source.header_columns import HeaderDecoder
        except ImportError:
            return make_decoder(projection.wanted), lambda: None
        with_headers = HeaderDecoder(projection.wanted, projection.schema.field(HEADERS).type)
        return with_headers, with_headers.take_headers
    return make_decoder(projection.wanted), lambda: None


def _located(error: CorruptRecordError, chunk: FetchedBatches) -> CorruptRecordError:
    return CorruptRecordError(
        f"{chunk.topic}-{chunk.partition}, offsets {chunk.first_offset} to {chunk.next_offset - 1}: {error}"
    )
