"""Cases of consumer groups: commits of offsets a second, and how long a large group takes to rebalance.

    python -m benchmarks --case commits --case rebalance-1000

Members speak the classic protocol, which both brokers serve with their defaults. What a thousand of them cost in Python
is part of the rebalance, on both sides alike.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Final, TypeVar

from benchmarks import load
from benchmarks.admin import read_frame
from benchmarks.cases import Better, Case, Figure, Figures, times_kafka
from benchmarks.lab import Bench, reply_size
from tidelog.client.aio.consumer.protocol import Assignment, Subscription, encode_assignment, encode_subscription
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.frames import encode_request, response_body_offset
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tidelog.wire.schema import Message

CONNECTIONS: Final = 64
MEMBERS: Final = 1_000
COMMIT_VERSION, FIND_VERSION, JOIN_VERSION, SYNC_VERSION = 8, 3, 7, 5
TIMEOUT_MS: Final = 300_000
CLIENT_ID: Final = "benchmark"
_serial = iter(range(1_000_000))

Answer = TypeVar("Answer", bound=Message)


def _frame(request: Message, version: int) -> bytes:
    return encode_request(request.api_key, version, 1, CLIENT_ID, request.encode(version))


def _commit(group: str, topic: str) -> bytes:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    return _frame(OffsetCommitRequest(group_id=group, topics=topics), COMMIT_VERSION)


def _find_all(bench: Bench, groups: list[str]) -> None:
    """Ask until every group has a coordinator: the first to ask has `__consumer_offsets` made."""
    with bench.connections(1) as (sock,):
        for group in groups:
            frame = _frame(FindCoordinatorRequest(key=group), FIND_VERSION)
            for _ in range(1_000):
                sock.sendall(frame)
                reply = read_frame(sock)
                if not _decoded(FindCoordinatorResponse, reply, FIND_VERSION).error_code:
                    break
                time.sleep(0.02)


def _decoded(kind: type[Answer], reply: bytes, version: int) -> Answer:
    return kind.decode(reply, version, response_body_offset(kind.api_key, version, reply))


def commits(bench: Bench) -> Figures:
    """Groups without members, each committing one offset, the next after the answer."""
    groups = [f"commits-{next(_serial)}" for _ in range(CONNECTIONS)]
    _find_all(bench, groups)
    with bench.topic() as topic, bench.connections(CONNECTIONS) as socks:
        requests = [_commit(group, topic.name) for group in groups]
        sizes = {reply_size(sock, request) for sock, request in zip(socks, requests, strict=True)}
        (size,) = sizes
        sample, _ = bench.measure(lambda seconds: load.many_connections(socks, requests, size, seconds))
    return {"rate": sample.requests_per_second}


class Member:
    """A member of a group on a connection of its own."""

    def __init__(self, group: str, topic: str) -> None:
        self._group = group
        self._topic = topic
        self._id = ""
        self._generation = -1

    async def open(self, address: tuple[str, int]) -> None:
        self._reader, self._writer = await asyncio.open_connection(*address, limit=1 << 24)

    def close(self) -> None:
        self._writer.close()

    async def rebalance(self) -> None:
        """Join, hand out or receive an assignment; again if another member joined meanwhile."""
        while True:
            joined = await self._join()
            code = await self._sync(joined)
            if not code:
                return
            if code != ErrorCode.REBALANCE_IN_PROGRESS:
                raise RuntimeError(f"SyncGroup was answered with {ErrorCode(code).name}")

    async def _join(self) -> JoinGroupResponse:
        metadata = encode_subscription(Subscription((self._topic,)), 1)
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=TIMEOUT_MS,
                rebalance_timeout_ms=TIMEOUT_MS,
                member_id=self._id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
            )
            joined = await self._ask(request, JoinGroupResponse, JOIN_VERSION)
            self._id, self._generation = joined.member_id, joined.generation_id
            if not joined.error_code:
                return joined
            if joined.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise RuntimeError(f"JoinGroup was answered with {ErrorCode(joined.error_code).name}")

    async def _sync(self, joined: JoinGroupResponse) -> int:
        assignments = [
            SyncGroupRequestAssignment(
                member_id=member.member_id,
                assignment=encode_assignment(Assignment((TopicPartition(self._topic, index),)), 1),
            )
            for index, member in enumerate(joined.members)
        ]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        return (await self._ask(request, SyncGroupResponse, SYNC_VERSION)).error_code

    async def _ask(self, request: Message, answer: type[Answer], version: int) -> Answer:
        self._writer.write(_frame(request, version))
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return _decoded(answer, await self._reader.readexactly(size), version)


async def _rebalances(address: tuple[str, int], group: str, topic: str) -> float:
    """The seconds of the quickest of three rebalances of a group that exists; its making waits for latecomers."""
    members = [Member(group, topic) for _ in range(MEMBERS)]
    for member in members:
        await member.open(address)
    await asyncio.gather(*(member.rebalance() for member in members))
    found = []
    for _ in range(3):
        started = time.perf_counter()
        await asyncio.gather(*(member.rebalance() for member in members))
        found.append(time.perf_counter() - started)
    for member in members:
        member.close()
    return min(found)


def rebalance(bench: Bench) -> Figures:
    """A thousand members join again and are assigned a partition each."""
    group = f"rebalance-{next(_serial)}"
    _find_all(bench, [group])
    return {"seconds": asyncio.run(_rebalances(bench.broker.address, group, "none"))}


GROUP_CASES: Final = (
    Case(
        "commits",
        commits,
        (
            Figure(
                "rate",
                f"commits of offsets, {CONNECTIONS} groups, one in flight each",
                "commits/s",
                Better.HIGHER,
                times_kafka(1.5),
            ),
        ),
    ),
    Case(
        "rebalance-1000",
        rebalance,
        (Figure("seconds", "rebalance of 1,000 members, join and sync", "s", Better.LOWER, times_kafka(1)),),
    ),
)
