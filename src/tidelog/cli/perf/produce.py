"""`tidelog perf produce`: one prebuilt batch, sent over and over with several requests under way."""

import os
import time
from collections import deque
from struct import Struct
from typing import Annotated, Final, NamedTuple

import typer

from tidelog.cli._clients import Connection, leader_of
from tidelog.cli._options import Format, OutputFormat, TopicName
from tidelog.cli.perf._figures import Figures, report, summarize
from tidelog.cli.perf._wire import RawSocket, check_error
from tidelog.cli.produce import Acks, AcksOption, Compression, CompressionOption, check_topic
from tidelog.cli.progress import Progress, progress
from tidelog.client.aio.admin.types import LATEST
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.producer import Producer
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.records.builder import build_batch
from tidelog.records.record import Record
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.frames import encode_request
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

EXAMPLE: Final = "tidelog perf produce load --records 1000000 --batch-bytes 100000"

# The last version before compact lengths: every broker serves it, and its reply has the error at a fixed place.
_VERSION: Final = 7
_CORRELATION_POSITION: Final = 8
_RECORD_OVERHEAD_BYTES: Final = 8

_pack_correlation: Final = Struct(">i").pack_into


class Load(NamedTuple):
    """What is sent: a frame of one batch, how often, and where its reply holds the error code."""

    frame: bytearray
    batches: int
    records_per_batch: int
    error_position: int
    is_answered: bool


def produce(
    connection: Connection,
    topic: TopicName,
    records: Annotated[int, typer.Option(help="How many records to send.", min=1)] = 1_000_000,
    record_bytes: Annotated[int, typer.Option(help="Size of a record's value.", min=0)] = 100,
    batch_bytes: Annotated[int, typer.Option(help="Size of a batch before compression.", min=1)] = 16 * 1024,
    in_flight: Annotated[int, typer.Option(help="Requests in flight.", min=1)] = 5,
    partition: Annotated[int, typer.Option(help="The partition to write to.", min=0)] = 0,
    compression: CompressionOption = Compression.NONE,
    acks: AcksOption = Acks.ONE,
    output: OutputFormat = Format.TEXT,
) -> None:
    """Measure the produce throughput of a partition; an unknown topic is created if the cluster allows it."""
    with Producer(connection.settings(ProducerSettings)) as producer:
        check_topic(producer, topic, partition)
    where = TopicPartition(topic, partition)
    with connection.admin() as admin:
        admin.list_offsets({where: LATEST})  # waits for a leader election
        node = leader_of(admin, where)
    per_batch = max(1, batch_bytes // (record_bytes + _RECORD_OVERHEAD_BYTES))
    batch = build_load_batch(per_batch, record_bytes, compression)
    load = Load(
        build_frame(topic, partition, acks.number, batch),
        batches=-(-records // per_batch),
        records_per_batch=per_batch,
        error_position=4 + 4 + 2 + len(topic.encode()) + 4 + 4,
        is_answered=acks is not Acks.ZERO,
    )
    with progress(f"producing to {topic}", load.batches * per_batch, in_logs=output is Format.TEXT) as watcher:
        seconds, latencies = run_load(node, load, in_flight, watcher)
    sent = load.batches * per_batch
    figures = Figures(sent, sent * record_bytes, seconds, summarize(latencies))
    report(figures, f"a batch of {per_batch:,} records, {in_flight} in flight", output)


def build_load_batch(count: int, record_bytes: int, compression: Compression) -> bytes:
    """A batch of random values, which do not compress, unless compression is asked for: then they halve."""
    now_ms = time.time_ns() // 1_000_000
    value = os.urandom(record_bytes if compression is Compression.NONE else -(-record_bytes // 2))
    value = value.ljust(record_bytes, b"t")
    return build_batch([Record(index, now_ms, None, value) for index in range(count)], codec=compression.codec)


def build_frame(topic: str, partition: int, acks: int, batch: bytes) -> bytearray:
    """The whole Produce request; only its correlation id will change."""
    request = ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        ],
    )
    return bytearray(encode_request(ApiKey.PRODUCE, _VERSION, 0, "tidelog-perf", request.encode(_VERSION)))


def run_load(node: BrokerNode, load: Load, in_flight: int, watcher: Progress) -> tuple[float, list[int]]:
    """Send it all; returns the seconds it took and the nanoseconds from each send to its reply."""
    raw = RawSocket(node, timeout_s=30.0)
    frame, batches = load.frame, load.batches
    sent_at: deque[int] = deque()
    latencies: list[int] = []
    report_every = max(1, batches // 100)
    now = time.perf_counter_ns
    started = now()
    try:
        for number in range(batches):
            if len(sent_at) == in_flight:
                check_error(raw.receive(), load.error_position, "the batch")
                latencies.append(now() - sent_at.popleft())
            _pack_correlation(frame, _CORRELATION_POSITION, number)
            before = now()
            raw.send(frame)
            if load.is_answered:
                sent_at.append(before)
            else:
                latencies.append(now() - before)
            if number % report_every == report_every - 1:
                watcher.advance(report_every * load.records_per_batch)
        while sent_at:
            check_error(raw.receive(), load.error_position, "the batch")
            latencies.append(now() - sent_at.popleft())
        watcher.advance(batches % report_every * load.records_per_batch)
        return (now() - started) / 1e9, latencies
    finally:
        raw.close()
