"""A Produce read and answered at once beside one read and answered field by field: the same bytes, the same log.

Two brokers with the same topics and the same open transaction get the same requests, in every version, right ones and
wrong ones. One of them has the short codecs of `wire.produce`, the other only the general ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compat.transactions.protocol import Producer, Rpc
from tests.integration.inside import Inside
from tests.integration.raw_client import records_of
from tidelog.broker.handlers import produce
from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.timing import ManualClock
from tidelog.wire import messages
from tidelog.wire import produce as codec
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from tidelog.wire.messages.produce import PartitionProduceData, TopicProduceData

PLAIN, STAMPED, LONG = "plain", "stamped", "l" * 140
TOPICS = {PLAIN: {}, STAMPED: {"message.timestamp.type": "LogAppendTime"}, LONG: {"segment.bytes": "2000"}}
NOW_MS = 1_800_000_000_000


class Broker(NamedTuple):
    inside: Inside
    rpc: Rpc
    producer: Producer
    directory: Path


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Broker]]:
    with ExitStack() as stack:
        first, second = (_start(stack, tmp_path_factory.mktemp("ways-in")) for _ in range(2))
        assert first.producer == second.producer
        yield first, second


def _start(stack: ExitStack, directory: Path) -> Broker:
    inside = stack.enter_context(Inside(directory))
    rpc = stack.enter_context(Rpc(inside.port))
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=2,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in TOPICS.items()
    ]
    rpc.client.call(messages.CreateTopicsRequest(topics=topics))
    # However slow the machine is: the transaction stays open, and no request is cut into slices.
    producer = rpc.start("writer", timeout_ms=900_000)
    inside.node.clock = ManualClock(NOW_MS)
    inside.node.slices.seconds = lambda: 0.0
    rpc.begin(producer, (PLAIN, 0))
    return Broker(inside, rpc, producer, directory)


class RecordingSlot:
    """The place of a reply, without a connection behind it."""

    def __init__(self) -> None:
        self.reply: bytes | None = None
        self.is_closed = False
        self.connection = SimpleNamespace(address="nowhere")

    def fill(self, reply: bytes) -> None:
        self.reply = reply

    def fail(self, _api: str, cause: Exception) -> None:
        raise cause

    def close_connection(self) -> None:
        self.is_closed = True


class Part(NamedTuple):
    """What a request holds for one partition."""

    topic: str
    index: int  # type: ignore[assignment]  # not the method of a tuple
    kind: str
    values: list[bytes]
    sequence: int
    codec: Codec


class Step(NamedTuple):
    """One request."""

    parts: list[Part]
    acks: int
    transactional_id: str | None


def mostly(usual: object, *others: object) -> st.SearchStrategy[Any]:
    """One thing in most requests, so that most of a history goes well."""
    return st.sampled_from([*[usual] * 3 * len(others), *others])


parts = st.builds(
    Part,
    topic=mostly(PLAIN, STAMPED, LONG, "unknown", "__transaction_state"),
    index=mostly(0, 1, 7),
    kind=mostly("good", "idempotent", "transactional", "torn", "two", "corrupt", "null", "empty"),
    values=st.lists(st.binary(max_size=200), min_size=1, max_size=3),
    sequence=st.integers(0, 4),
    codec=mostly(Codec.NONE, Codec.GZIP, Codec.ZSTD),
)
steps = st.builds(
    Step,
    parts=st.lists(parts, min_size=1, max_size=1) | st.lists(parts, max_size=3),
    acks=mostly(-1, 1, 0, 2),
    transactional_id=mostly(None, "writer", "another writer"),
)


@pytest.mark.parametrize("version", range(messages.ProduceRequest.versions[1] + 1))
@given(history=st.lists(steps, min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_both_ways_answer_and_store_the_same(brokers: tuple[Broker, Broker], version: int, history: list[Step]) -> None:
    at_once, by_field = brokers
    expected = at_once.inside.on_loop(lambda: _run(at_once, history, version))
    with (
        patch.object(produce, "decode_request", codec._DECODER.decode_of_any_shape),
        patch.object(produce, "encode_single", _encode_by_field),
    ):
        assert by_field.inside.on_loop(lambda: _run(by_field, history, version)) == expected


def _encode_by_field(
    correlation_id: int, version: int, topic: bytes, index: int, offset: int, append_time_ms: int, start_offset: int
) -> bytes:
    reply = codec.PartitionReply(index, 0, offset, append_time_ms, start_offset)
    return codec.encode_response(correlation_id, version, [(topic, [reply])], 0)


def _run(broker: Broker, history: list[Step], version: int) -> object:
    """The replies, with the same topic ids for every broker, and what the logs hold."""
    node = broker.inside.node
    topic_id = node.image.topic_id
    slots = []
    for step in history:
        body = _request(step, broker.producer, topic_id).encode(version)
        slot = RecordingSlot()
        produce.handle_bytes(node, slot, bytearray(body), 0, len(body), version, 4711)  # type: ignore[arg-type]
        slots.append(slot)
    node.replica_manager.end_turn()
    logs = {
        partition.key: partition.log for partition in node.replica_manager.partitions() if partition.topic in TOPICS
    }
    stored = {
        key: (log.log_end_offset, log.high_watermark, log.last_stable_offset, _files(log.directory))
        for key, log in logs.items()
    }
    return [(_with_names(slot.reply, topic_id), slot.is_closed) for slot in slots], stored


def _with_names(reply: bytes | None, topic_id: Callable[[str], bytes]) -> bytes | None:
    """A reply with something in place of topic ids that is the same in both brokers."""
    if reply is None:
        return None
    for name in TOPICS:
        reply = reply.replace(topic_id(name), name.encode().ljust(16)[:16])
    return reply


def _files(directory: str) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in sorted(Path(directory).glob("*.log"))]


def _request(step: Step, producer: Producer, topic_id: Callable[[str], bytes]) -> messages.ProduceRequest:
    topics: dict[str, list[PartitionProduceData]] = {}
    for part in step.parts:
        data = PartitionProduceData(index=part.index, records=_records(part, producer))
        topics.setdefault(part.topic, []).append(data)
    return messages.ProduceRequest(
        transactional_id=step.transactional_id,
        acks=step.acks,
        timeout_ms=60_000,
        topic_data=[
            TopicProduceData(name=name, topic_id=topic_id(name), partition_data=data) for name, data in topics.items()
        ],
    )


def _records(part: Part, producer: Producer) -> bytes | None:
    if part.kind in ("null", "empty"):
        return None if part.kind == "null" else b""
    has_producer = part.kind in ("idempotent", "transactional")
    batch = build_batch(
        records_of(part.values, NOW_MS),
        codec=part.codec,
        producer_id=producer.producer_id + (part.kind == "idempotent") if has_producer else -1,
        producer_epoch=producer.epoch if has_producer else -1,
        base_sequence=part.sequence if has_producer else -1,
        is_transactional=part.kind == "transactional",
    )
    if part.kind == "torn":
        return batch[:-1]
    if part.kind == "corrupt":
        return batch[:-1] + bytes([batch[-1] ^ 1])
    return batch * 2 if part.kind == "two" else batch
