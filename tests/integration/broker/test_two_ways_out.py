"""A Fetch read and answered at once beside one read and answered field by field: the same bytes, waiting and session.

Requests run on the thread of a real broker, over logs with several segments, a deleted beginning, and transactions
that are committed, aborted and open. Each way has a cache of sessions of its own, so both see the same history.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compat.transactions.protocol import Rpc
from tests.integration.inside import Inside
from tests.integration.raw_client import batch_of, describe_topic, produce
from tidelog.broker.handlers import fetch
from tidelog.broker.serving.node import Node
from tidelog.network.send_queue import Chunk
from tidelog.replication.fetch_session import FetchSessionCache
from tidelog.storage._files import FileSlice
from tidelog.wire import fetch as codec
from tidelog.wire import messages
from tidelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from tidelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsTopic
from tidelog.wire.messages.fetch import FetchPartition, FetchTopic

TOPIC = "fetched"
PLAIN, TRANSACTIONAL, EMPTY = 0, 1, 2


class Setting(NamedTuple):
    broker: Inside
    topic_id: bytes


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    with Inside(tmp_path_factory.mktemp("ways-out")) as broker, Rpc(broker.port) as rpc:
        client = rpc.client
        config = [CreatableTopicConfig(name="segment.bytes", value="4000")]
        topic = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1, configs=config)
        assert client.call(messages.CreateTopicsRequest(topics=[topic])).topics[0].error_code == 0
        for size in (10, 300, 5, 900, 20, 40, 1200, 7):
            assert produce(client, TOPIC, PLAIN, batch_of([b"v" * size] * 3)).error_code == 0
        deleted = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=PLAIN, offset=4)])
        client.call(messages.DeleteRecordsRequest(topics=[deleted], timeout_ms=1000))
        _write_transactions(rpc)
        yield Setting(broker, describe_topic(client, TOPIC).topic_id)


def _write_transactions(rpc: Rpc) -> None:
    producer = rpc.start("writer")
    for number, is_commit in enumerate((True, False, False, True)):
        rpc.begin(producer, (TOPIC, TRANSACTIONAL))
        rpc.write(TOPIC, TRANSACTIONAL, [b"t" * 400] * 2, producer, sequence=2 * number)
        rpc.finish(producer, is_commit)
    rpc.begin(producer, (TOPIC, TRANSACTIONAL))
    rpc.write(TOPIC, TRANSACTIONAL, [b"open"], producer, sequence=8)


class RecordingSlot:
    """The place of a reply, without a connection behind it."""

    def __init__(self) -> None:
        self.reply: list[Chunk] = []
        self.end_waiting: Callable[[], object] | None = None
        self.connection = SimpleNamespace(close=pytest.fail, address="nowhere", is_closed=False, throttle_ms=0)

    def fill(self, reply: list[Chunk]) -> None:
        self.reply = reply

    def fail(self, api: str, cause: Exception) -> None:
        raise cause

    def park(self, abandon: Callable[[], object]) -> None:
        self.end_waiting = abandon

    def frame(self) -> bytes:
        return b"".join(chunk if isinstance(chunk, bytes) else cast(FileSlice, chunk).read() for chunk in self.reply)


def _encode_by_field(
    correlation_id: int,
    version: int,
    key: codec.TopicKey,
    reply: codec.PartitionReply,
    _records: object,
    *rest: int,
) -> list[codec.Chunk]:
    return codec._encode(correlation_id, version, [(key, [reply])], *rest)


async def _run_here(function: Callable[[], bytes]) -> bytes:
    """In place of a thread, so that both ways are compared in one turn of the loop."""
    return function()


class Way:
    """One of the two, and the sessions that its requests have opened."""

    def __init__(self, node: Node, *, is_at_once: bool) -> None:
        self.is_at_once = is_at_once
        self._node = node
        self._sessions = FetchSessionCache(10, itertools.count(77).__next__)

    def answer(self, body: bytes, version: int) -> tuple[bytes, bool, object]:
        """The frame, whether it had to wait, and what the broker remembers of the session."""
        slot = RecordingSlot()
        shared, self._node.fetch_sessions = self._node.fetch_sessions, self._sessions
        try:
            with (
                patch.object(self._node.background, "run_alone", _run_here),
                nullcontext()
                if self.is_at_once
                else patch.object(fetch, "decode_request", codec._DECODER.decode_of_any_shape),
                nullcontext() if self.is_at_once else patch.object(codec, "_encode_single", _encode_by_field),
            ):
                fetch.handle_bytes(self._node, slot, bytearray(body), 0, len(body), version, 4711)  # type: ignore[arg-type]
                if slot.end_waiting is not None:
                    slot.end_waiting()
        finally:
            self._node.fetch_sessions = shared
        return slot.frame(), slot.end_waiting is not None, self._remembered()

    def _remembered(self) -> object:
        return [
            (session.session_id, session.epoch, key, cached.fetch, cached.high_watermark, cached.log_start_offset)
            for session in self._sessions._sessions.values()
            for key, cached in session.partitions.items()
        ]


class Step(NamedTuple):
    """One request. The session goes on (`next`), begins (`new`), ends (`final`), is not there, or is got wrong."""

    index: int  # type: ignore[assignment]  # not the method of a tuple
    offset: int
    max_bytes: int
    partition_bytes: int
    min_bytes: int
    max_wait_ms: int
    isolation_level: int
    leader_epoch: int
    last_epoch: int
    session: str
    is_named: bool


def mostly(usual: object, *others: object) -> st.SearchStrategy[Any]:
    """One thing in most requests: histories get far only if little in them is unusual."""
    return st.sampled_from([*[usual] * 3 * len(others), *others])


steps = st.builds(
    Step,
    index=st.sampled_from([PLAIN, TRANSACTIONAL, PLAIN, TRANSACTIONAL, EMPTY, 3]),
    offset=st.integers(4, 12) | st.integers(-1, 26),
    max_bytes=mostly(50 << 20, 0, 1, 1000, 5000, 2**31 - 1),
    partition_bytes=mostly(1 << 20, 0, 1, 100, 1000, 5000),
    min_bytes=mostly(1, 0, 500, 1 << 20),
    max_wait_ms=st.sampled_from([0, 60_000]),
    isolation_level=st.integers(0, 1),
    leader_epoch=mostly(-1, 0, 5),
    last_epoch=mostly(-1, 0),
    session=mostly("next", "none", "new", "final", "wrong"),
    is_named=mostly(True, False),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    """A session, most often of one partition, and what else comes between its requests."""
    first = draw(steps)
    rest = draw(st.lists(steps, max_size=6))
    if draw(mostly(True, False)):
        rest = [step._replace(index=first.index) for step in rest]
    return [first._replace(session="new"), *rest]


@pytest.mark.parametrize("version", range(18))
@given(history=histories())
@settings(max_examples=25, deadline=None)
def test_both_ways_answer_with_the_same_bytes(setting: Setting, version: int, history: list[Step]) -> None:
    setting.broker.on_loop(lambda: _compare(setting, version, history))


def _compare(setting: Setting, version: int, history: list[Step]) -> None:
    at_once = Way(setting.broker.node, is_at_once=True)
    by_field = Way(setting.broker.node, is_at_once=False)
    session_id, epoch = 0, 0
    for step in history:
        body = _request(setting, step, version, session_id, epoch)
        found = at_once.answer(body, version)
        assert found == by_field.answer(body, version)
        answered = _session_id(found[0], version)
        if step.session == "new":
            session_id, epoch = answered, 1
        elif step.session == "next" and session_id and answered:
            epoch += 1
        elif step.session == "final":
            session_id = 0


def _session_id(frame: bytes, version: int) -> int:
    body = frame[8 + (version >= codec.FLEXIBLE_FROM) :]
    return messages.FetchResponse.decode(body, version).session_id if version >= 7 else 0


def _request(setting: Setting, step: Step, version: int, session_id: int, epoch: int) -> bytes:
    place = {
        "none": (0, -1),
        "new": (session_id, 0),
        "next": (session_id, epoch),
        "final": (session_id, -1),
        "wrong": (session_id, epoch + 3),
    }[step.session]
    wanted = FetchPartition(
        partition=step.index,
        current_leader_epoch=step.leader_epoch,
        fetch_offset=step.offset,
        last_fetched_epoch=step.last_epoch,
        partition_max_bytes=step.partition_bytes,
    )
    request = messages.FetchRequest(
        max_wait_ms=step.max_wait_ms,
        min_bytes=step.min_bytes,
        max_bytes=step.max_bytes,
        isolation_level=step.isolation_level,
        session_id=place[0],
        session_epoch=place[1],
        topics=[FetchTopic(topic=TOPIC, topic_id=setting.topic_id, partitions=[wanted])] if step.is_named else [],
    )
    return request.encode(version)
