"""A share group beside the clients of a simulation: a producer, and members whose every request is their own.

Members come and go, accept, release with and without a delay, reject, and forget records until their locks end. What
they see goes into a `ShareHistory`. In the end one member takes what is left. Everything random comes from a stream of
its own, which leaves the other clients' as it was.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from tidelog.client import AsyncAdmin, AsyncProducer, ClientError, ConfigChange, ConfigResource, ResourceType
from tidelog.client.aio.admin.admin import AdminSettings
from tidelog.client.aio.coordinators import CoordinatorType
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.settings import load_settings
from tidelog.metadata import paths
from tidelog.metadata.errors import NoNodeError
from tidelog.metadata.tree import decode_partition_state
from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.sharing.dead_letters import OFFSET_HEADER, PARTITION_HEADER
from tidelog.sharing.schemas import ShareKey
from tidelog.testing.simulation.history import Reader
from tidelog.testing.simulation.share_history import Exchange, Place, ShareHistory
from tidelog.testing.simulation.simulation import Simulation
from tidelog.testing.simulation.workload import PARTITIONS, Life, Workload
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import share_acknowledge as acknowledging
from tidelog.wire.messages import share_fetch as fetching
from tidelog.wire.messages import share_group_heartbeat as beating

SHARED_TOPIC: Final = "shared"
LETTERS_TOPIC: Final = "dlq.shared"
LETTERS_SETTINGS: Final = {"errors.deadletterqueue.group.enable": "true"}
SHARING_BROKER: Final = {
    "group.share.record.lock.duration.ms": "1500",
    "group.share.delivery.count.limit": "10",
    "group.share.session.timeout.ms": "3000",
    "group.share.heartbeat.interval.ms": "800",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.prune.interval.ms": "3000",
    "share.coordinator.snapshot.update.records.per.snapshot": "4",
}
"""Settings of brokers that make what is rare happen."""
EXPECTED_SHARE_WORK: Final = (
    "share accepts confirmed",
    "share deliveries",
    "share redeliveries",
    "share releases confirmed",
)
"""What members do in every run of many seeds."""

_GROUP: Final = "sharers"
_GROUP_SETTINGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.retry.delays": "50ms,200ms",
    "errors.deadletterqueue.topic.name": LETTERS_TOPIC,
}
_LOCK_SECONDS: Final = 1.5
_COUNT_LIMIT: Final = 10
_MEMBERS: Final = 3
_ACCEPT, _RELEASE, _REJECT = 1, 2, 3
_KINDS: Final = (_ACCEPT, _ACCEPT, _ACCEPT, _ACCEPT, _RELEASE, _RELEASE, _REJECT, None)
_DELAYS_MS: Final = (-1, 0, 700)
_REQUEST_MS: Final = 4_000
_FAST: Final = {"request.timeout.ms": _REQUEST_MS, "bootstrap.timeout.ms": 15_000}
_DRAIN_SECONDS_MAX: Final = 200.0


class _Ack:
    """An acknowledgement that a member is to send."""

    def __init__(self, place: Place, kind: int, delay_ms: int) -> None:
        self.place, self.kind, self.delay_ms = place, kind, delay_ms


class _Session:
    """A share session on one broker, until something goes wrong."""

    def __init__(self, indexes: Sequence[int]) -> None:
        self.indexes = indexes
        self.epoch = 0
        self.acks: list[_Ack] = []


class ShareLoad:
    """The group of one simulation."""

    def __init__(self, cluster: Simulation, workload: Workload, chance: random.Random) -> None:
        self.history = ShareHistory(_LOCK_SECONDS, _COUNT_LIMIT)
        self._cluster = cluster
        self._workload = workload
        self._random = chance
        self._members = 0
        self._topic_id = b""
        self._is_draining = False

    def lives(self) -> Iterator[Life]:
        yield self._produce
        for _ in range(_MEMBERS):
            yield self._take_part

    async def set_up(self) -> None:
        """Give the group its settings."""
        changes = [ConfigChange(name, value) for name, value in _GROUP_SETTINGS.items()]
        async with AsyncAdmin({"bootstrap.servers": self._cluster.bootstrap_servers}) as admin:
            await admin.incremental_alter_configs({ConfigResource(ResourceType.GROUP, _GROUP): changes})
            self._topic_id = (await admin.describe_topics([SHARED_TOPIC]))[SHARED_TOPIC].topic_id

    async def _produce(self) -> None:
        settings = self._workload.producer_settings | {"acks": "all"}
        async with AsyncProducer(settings) as producer:
            while not self._workload.is_stopping:
                for _ in range(self._random.randrange(1, 5)):
                    value = self._workload.new_value("shared")
                    sent = self._workload.history.send(value)
                    partition = self._random.randrange(PARTITIONS)
                    where = await producer.send_and_wait(SHARED_TOPIC, value, partition=partition)
                    sent.acknowledged((SHARED_TOPIC, partition), where.offset)
                await asyncio.sleep(self._random.uniform(0.05, 0.8))

    # --- members ---

    async def _take_part(self) -> None:
        """Be a member for a while."""
        self._members += 1
        member = _Member(self, f"member-{self._members}")
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._random.uniform(1.0, 8.0)
        await member.live(lambda: self._workload.is_stopping or loop.time() > ends_at)

    async def drain(self) -> None:
        """Take what is left, as the last member."""
        self._is_draining = True
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _DRAIN_SECONDS_MAX
        while not self.is_drained() and loop.time() < ends_at:
            with suppress(ClientError):
                self._members += 1
                await _Member(self, f"member-{self._members}").live(lambda: self.is_drained() or loop.time() > ends_at)

    def is_drained(self) -> bool:
        """Whether the group is at the end of every partition."""
        return all(
            core is not None and core.start_offset >= end_offset
            for core, end_offset in (self._state_of(index) for index in range(PARTITIONS))
        )

    def _state_of(self, index: int) -> tuple[Any, int]:
        for broker in self._cluster.brokers:
            partition = broker.find_partition(SHARED_TOPIC, index) if broker.is_serving else None
            if partition is not None and partition.is_leader:
                return self._core_on(broker, index), partition.log.high_watermark
        return None, 0

    def _core_on(self, broker: Any, index: int) -> Any:
        built = broker.node.shares.built
        key = ShareKey(_GROUP, self._topic_id, index)
        return None if built is None else next((each.core for each in built.led() if each.key == key), None)

    def source_of(self, node_id: int, index: int) -> Hashable | None:
        """The state that the broker has of a partition; None if it is not, or not any more, the leader."""
        broker = next(each for each in self._cluster.brokers if each.broker_id == node_id)
        partition = broker.find_partition(SHARED_TOPIC, index) if broker.is_serving else None
        if partition is None or not partition.is_leader:
            return None
        try:
            data = self._cluster.tree.node(paths.partition_state(SHARED_TOPIC, index)).data
        except NoNodeError:
            return None
        state = decode_partition_state(SHARED_TOPIC, index, data)
        if (state.leader, state.leader_epoch) != (node_id, partition.leader_epoch):
            return None
        core: Hashable | None = self._core_on(broker, index)
        return core

    def choose(self, place: Place) -> _Ack | None:
        """What becomes of a record."""
        kind = _ACCEPT if self._is_draining else self._random.choice(_KINDS)
        if kind is None:
            return None
        return _Ack(place, kind, self._random.choice(_DELAYS_MS) if kind == _RELEASE else -1)

    def pause(self) -> float:
        return self._random.uniform(0.02, 0.4)

    def separately(self) -> bool:
        """Whether an acknowledgement is sent by itself."""
        return self._random.random() < 0.4

    @property
    def servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def topic_id(self) -> bytes:
        return self._topic_id

    # --- at the end ---

    def anomalies(self, final: Reader) -> list[str]:
        """What is wrong, by what the topics hold in the end."""
        written = {
            (place[1], read.offset): read.value
            for place, reads in final.reads.items()
            if place[0] == SHARED_TOPIC
            for read in reads
        }
        return list(self.history.anomalies(written, self.letters()))

    def letters(self) -> list[Place]:
        """The records that have a dead letter, as the leaders of their topic have them."""
        found: list[Place] = []
        for broker in self._cluster.brokers:
            for partition in broker.partitions():
                if partition.topic == LETTERS_TOPIC and partition.is_leader:
                    log = partition.log
                    offset = log.log_start_offset
                    while offset < log.high_watermark:
                        read = log.read(offset, 1 << 20, log.high_watermark, True)
                        assert read.slice is not None, "what lies before the high watermark can be read"
                        found += _origins(read.slice.read())
                        offset = log.read_end_offset(read)
        self.history.counts["dead letters of a share group"] += len(found)
        return found


def _origins(data: bytes) -> Iterator[Place]:
    for position, _ in iterate_batches(data):
        for record in iterate_records(data, position):
            headers = dict(record.headers)
            yield int(headers[PARTITION_HEADER] or b""), int(headers[OFFSET_HEADER] or b"")


class _Member:
    """One member and its sessions."""

    def __init__(self, load: ShareLoad, name: str) -> None:
        self._load = load
        self._name = name
        self._epoch = 0
        self._beats_at = 0.0
        self._sessions: dict[int, _Session] = {}

    async def live(self, is_over: Any) -> None:
        settings = load_settings(AdminSettings, {"bootstrap.servers": self._load.servers, **_FAST}, {})
        client = NetworkClient(settings, topics_wanted=lambda: {SHARED_TOPIC})
        try:
            await client.start(15_000)
            while not is_over():
                await self._heartbeat(client)
                await self._turn(client)
                await asyncio.sleep(self._load.pause())
        finally:
            for session in self._sessions.values():
                self._load.history.is_lost(session)
            await client.close()

    async def _heartbeat(self, client: NetworkClient) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._beats_at:
            return
        self._beats_at = now + 0.8
        request = beating.ShareGroupHeartbeatRequest(
            group_id=_GROUP, member_id=self._name, member_epoch=self._epoch, subscribed_topic_names=[SHARED_TOPIC]
        )
        node = await client.find_coordinator(CoordinatorType.GROUP, _GROUP, _REQUEST_MS)
        response = await client.send(node.node_id, request, beating.ShareGroupHeartbeatResponse)
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._epoch = 0
        elif response.error_code:
            client.forget_coordinator(CoordinatorType.GROUP, _GROUP)
        else:
            self._epoch = response.member_epoch

    async def _turn(self, client: NetworkClient) -> None:
        """One fetch from each broker that leads a partition, and perhaps acknowledgements by themselves."""
        led: dict[int, list[int]] = {}
        for index in range(PARTITIONS):
            leader = client.metadata.leader(SHARED_TOPIC, index)
            if leader is None:
                client.request_refresh()
            else:
                led.setdefault(leader.node_id, []).append(index)
        for node_id in self._sessions.keys() - led.keys():
            self._end(node_id)
        for node_id, indexes in led.items():
            session = self._sessions.get(node_id)
            if session is not None and session.indexes != indexes:
                self._end(node_id)
                session = None
            if session is None:
                session = self._sessions[node_id] = _Session(indexes)
            try:
                if session.epoch and session.acks and self._load.separately():
                    await self._acknowledge(client, node_id, session)
                if self._sessions.get(node_id) is session:
                    await self._fetch(client, node_id, session)
            except ClientError:
                self._end(node_id)
                client.request_refresh()
                raise

    def _end(self, node_id: int) -> None:
        self._load.history.is_lost(self._sessions.pop(node_id))

    async def _acknowledge(self, client: NetworkClient, node_id: int, session: _Session) -> None:
        acks, batches = self._take_acks(session, acknowledging.AcknowledgementBatch)
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=_GROUP,
            member_id=self._name,
            share_session_epoch=session.epoch,
            topics=[
                acknowledging.AcknowledgeTopic(
                    topic_id=self._load.topic_id,
                    partitions=[
                        acknowledging.AcknowledgePartition(partition_index=index, acknowledgement_batches=entries)
                        for index, entries in batches.items()
                    ],
                )
            ],
        )
        before = self._sources(node_id, session)
        sent_at = self._now()
        response = await client.send(node_id, request, acknowledging.ShareAcknowledgeResponse)
        if response.error_code:
            self._end(node_id)
            return
        session.epoch += 1
        self._load.history.is_alive(session)
        codes = {each.partition_index: each.error_code for topic in response.responses for each in topic.partitions}
        self._confirm(acks, codes, session, before, node_id, sent_at)

    async def _fetch(self, client: NetworkClient, node_id: int, session: _Session) -> None:
        acks, batches = self._take_acks(session, fetching.AcknowledgementBatch)
        request = fetching.ShareFetchRequest(
            group_id=_GROUP,
            member_id=self._name,
            share_session_epoch=session.epoch,
            max_wait_ms=300,
            min_bytes=1,
            max_records=8,
            batch_size=4,
            share_acquire_mode=1,
            topics=[
                fetching.FetchTopic(
                    topic_id=self._load.topic_id,
                    partitions=[
                        fetching.FetchPartition(partition_index=index, acknowledgement_batches=batches.get(index, []))
                        for index in session.indexes
                    ],
                )
            ],
        )
        before = self._sources(node_id, session)
        sent_at = self._now()
        response = await client.send(node_id, request, fetching.ShareFetchResponse)
        if response.error_code:
            self._end(node_id)
            return
        is_new = session.epoch == 0
        session.epoch += 1
        if not is_new:
            self._load.history.is_alive(session)
        found = [each for topic in response.responses for each in topic.partitions]
        codes = {each.partition_index: each.acknowledge_error_code for each in found}
        self._confirm(acks, codes, session, before, node_id, sent_at)
        for data in found:
            if data.error_code:
                client.request_refresh()
            self._note(data, session, self._exchange(data.partition_index, session, before, node_id, sent_at))

    def _note(self, data: fetching.PartitionData, session: _Session, exchange: Exchange) -> None:
        records = bytes(data.records)
        there = {
            record.offset
            for position, header in iterate_batches(records)
            if not header.is_control
            for record in iterate_records(records, position)
        }
        for entry in data.acquired_records:
            for offset in range(entry.first_offset, entry.last_offset + 1):
                place = data.partition_index, offset
                assert offset in there, f"{place} is locked and not in the response"
                self._load.history.delivered(place, entry.delivery_count, exchange)
                ack = self._load.choose(place)
                if ack is not None:
                    session.acks.append(ack)

    def _take_acks(self, session: _Session, batch_class: Any) -> tuple[list[_Ack], dict[int, list[Any]]]:
        """What the session has to acknowledge, as batches by partition; from now on its locks may have ended."""
        acks, session.acks = ([], session.acks) if session.epoch == 0 else (session.acks, [])
        batches: dict[int, list[Any]] = {}
        for ack in acks:
            self._load.history.acknowledging([ack.place], accepts=ack.kind == _ACCEPT, rejects=ack.kind == _REJECT)
            index, offset = ack.place
            batches.setdefault(index, []).append(
                batch_class(
                    first_offset=offset, last_offset=offset, acknowledge_types=[ack.kind], delay_ms=ack.delay_ms
                )
            )
        return acks, batches

    def _confirm(
        self,
        acks: Sequence[_Ack],
        codes: dict[int, int],
        session: _Session,
        before: dict[int, Hashable | None],
        node_id: int,
        sent_at: float,
    ) -> None:
        for ack in acks:
            index = ack.place[0]
            if codes.get(index) == ErrorCode.INVALID_RECORD_STATE and ack.kind == _ACCEPT:
                self._load.history.refused([ack.place])
            if codes.get(index, -1):
                continue
            exchange = self._exchange(index, session, before, node_id, sent_at)
            if ack.kind == _ACCEPT:
                self._load.history.accepted([ack.place], exchange.received_at)
            elif ack.kind == _RELEASE:
                self._load.history.released([ack.place], ack.delay_ms / 1000, exchange)

    def _exchange(
        self, index: int, session: _Session, before: dict[int, Hashable | None], node_id: int, sent_at: float
    ) -> Exchange:
        source = self._load.source_of(node_id, index)
        return Exchange(session, source if before[index] is source else None, sent_at, self._now())

    def _sources(self, node_id: int, session: _Session) -> dict[int, Hashable | None]:
        return {index: self._load.source_of(node_id, index) for index in session.indexes}

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
