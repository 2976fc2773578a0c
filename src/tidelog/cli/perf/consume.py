"""`tidelog perf consume`: fetch a partition from its beginning and count batches by their headers."""

import time
from struct import Struct
from typing import Annotated, Final, NamedTuple

import typer

from tidelog.cli._clients import Connection, leader_of
from tidelog.cli._options import Format, OutputFormat, TopicName
from tidelog.cli.errors import CommandError
from tidelog.cli.perf._figures import Figures, report, summarize
from tidelog.cli.perf._wire import RawSocket, check_error
from tidelog.cli.progress import Progress, progress
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.records.batch import iterate_batches
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.frames import encode_request
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

EXAMPLE: Final = "tidelog perf consume load --fetch-bytes 1048576"

# The first version with batches of magic 2, and the simplest: no sessions, no epochs, fixed places in the reply.
_VERSION: Final = 4

_pack_offset: Final = Struct(">q").pack_into
_unpack_int: Final = Struct(">i").unpack_from


class Load(NamedTuple):
    """What is asked: a frame, where in it the offset stands, and where a reply has its error and its data."""

    frame: bytearray
    offset_position: int
    error_position: int


def consume(
    connection: Connection,
    topic: TopicName,
    records: Annotated[
        int | None, typer.Option(help="Stop after so many records.", min=1, show_default="all there are")
    ] = None,
    fetch_bytes: Annotated[int, typer.Option(help="Bytes to ask for at a time.", min=1)] = 1024 * 1024,
    partition: Annotated[int, typer.Option(help="The partition to read.", min=0)] = 0,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Measure the fetch throughput of a partition, one fetch at a time."""
    where = TopicPartition(topic, partition)
    with connection.admin() as admin:
        first = admin.list_offsets({where: EARLIEST})[where].offset
        last = admin.list_offsets({where: LATEST})[where].offset
        node = leader_of(admin, where)
    if records is not None:
        last = min(last, first + records)
    if first >= last:
        raise CommandError(f"{topic}-{partition} holds no records; `tidelog perf produce {topic}` writes some")
    load = build_load(topic, partition, fetch_bytes)
    with progress(f"consuming {topic}", last - first, in_logs=output is Format.TEXT) as watcher:
        report(run_load(node, load, first, last, watcher), f"a fetch of up to {fetch_bytes:,} bytes", output)


def build_load(topic: str, partition: int, fetch_bytes: int) -> Load:
    """The Fetch request; only the offset in it will change."""
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=fetch_bytes,
        topics=[
            FetchTopic(topic=topic, partitions=[FetchPartition(partition=partition, partition_max_bytes=fetch_bytes)])
        ],
    )
    frame = bytearray(encode_request(ApiKey.FETCH, _VERSION, 1, "tidelog-perf", request.encode(_VERSION)))
    # The request ends with the offset and the partition's limit. The reply begins with correlation id, throttle time
    # and one topic, which has one partition.
    return Load(frame, len(frame) - 12, 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4)


def run_load(node: BrokerNode, load: Load, first: int, last: int, watcher: Progress) -> Figures:
    """Read offsets from `first` up to `last`."""
    raw = RawSocket(node, timeout_s=30.0)
    latencies: list[int] = []
    offset, count, data_bytes = first, 0, 0
    now = time.perf_counter_ns
    started = now()
    try:
        while offset < last:
            _pack_offset(load.frame, load.offset_position, offset)
            before = now()
            raw.send(load.frame)
            reply = raw.receive()
            latencies.append(now() - before)
            check_error(reply, load.error_position, "the fetch")
            found, next_offset, size_bytes = count_batches(reply, load.error_position)
            if next_offset <= offset:
                raise CommandError(f"no records from offset {offset} on, although the partition ends at {last}")
            watcher.advance(next_offset - offset)
            offset, count, data_bytes = next_offset, count + found, data_bytes + size_bytes
        return Figures(count, data_bytes, (now() - started) / 1e9, summarize(latencies))
    finally:
        raw.close()


def count_batches(reply: memoryview, error_position: int) -> tuple[int, int, int]:
    """Records, the offset after the last of them (-1 if there is none) and bytes of the whole batches in a reply."""
    # After the error: high watermark, last stable offset, the aborted transactions, the size of the data.
    position = error_position + 2 + 8 + 8
    (aborted,) = _unpack_int(reply, position)
    position += 4 + max(aborted, 0) * 16
    (size,) = _unpack_int(reply, position)
    start = position + 4
    end = start + max(size, 0)
    count, next_offset, data_bytes = 0, -1, 0
    for _, header in iterate_batches(reply[start:end]):
        count += header.record_count
        next_offset = header.next_offset
        data_bytes += header.size_bytes
    return count, next_offset, data_bytes
