"""Brokers with replicas of one partition on real logs, in one thread: what the tests of replication share.

A `Replica` is a broker: its replica manager with one partition, and its fetcher. `follow` is one round of fetching; the
request and the response go through the wire format of Fetch. There is no network and no time but the clock's.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.unit.storage.logs import batch, read_values, reopen
from tidelog.config import LogConfig
from tidelog.quotas import ReplicationQuota
from tidelog.replication.fetch import FetchParameters
from tidelog.replication.fetch_session import FetchSessionCache
from tidelog.replication.fetcher import Fetcher, FetcherSettings
from tidelog.replication.partition import ACKS_ALL, Partition
from tidelog.replication.produce import Errors, PendingProduce
from tidelog.replication.replica_manager import ReplicaManager
from tidelog.replication.replica_set import IsrProposal, LeaderAndIsr, ReplicaRules
from tidelog.storage.log import Log
from tidelog.timing import ManualClock, Timer
from tidelog.wire.fetch import PartitionReply, decode_request, encode_response
from tidelog.wire.frames import response_body_offset
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse

TOPIC = "topic"
TOPIC_ID = bytes(range(16))
FETCH_VERSION = 17
LAG_MS_MAX = 10_000


class Replica:
    """One broker with a replica of `topic-0`."""

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        clock: ManualClock,
        *,
        alive: set[int] | None = None,
        **config: Any,
    ) -> None:
        self.broker_id = broker_id
        self.clock = clock
        self.alive = {1, 2, 3, 4} if alive is None else alive
        self.directory = directory / f"broker-{broker_id}"
        self.directory.mkdir()
        self.config = LogConfig(**config)
        self.proposals: list[IsrProposal] = []
        self.acknowledged: list[int] = []
        self.refused: list[tuple[int, int]] = []
        self._start(Log.create(str(self.directory / "topic-0"), TOPIC, 0, self.config, clock.wall_ms()))

    def _start(self, log: Log) -> None:
        self.timer = Timer(self.clock.monotonic_ms())
        self.manager = ReplicaManager(
            self.broker_id, self.clock, self.timer, self.fail, self.flush, lambda: None, cluster=View(self)
        )
        self.log = log
        self.partition = self.manager.add_partition(TOPIC, 0, TOPIC_ID, log)
        self.sessions = FetchSessionCache(100, iter(range(1, 1 << 30)).__next__)
        self.fetcher: Fetcher | None = None
        self.leader_id = -1

    def fail(self, cause: object) -> None:
        raise AssertionError(f"broker {self.broker_id}: {cause}")

    def flush(self, log: Log, done: Any) -> None:
        log.flush(now_ms=self.clock.wall_ms())
        done()

    # --- roles ---

    def lead(
        self, epoch: int, isr: Iterable[int], replicas: Iterable[int] = (1, 2), partition_epoch: int | None = None
    ) -> None:
        state = LeaderAndIsr(
            self.broker_id, epoch, tuple(isr), tuple(replicas), epoch if partition_epoch is None else partition_epoch
        )
        self.fetcher, self.leader_id = None, self.broker_id
        self.partition.become_leader(state, self.clock.monotonic_ms())

    def follow_in(
        self,
        epoch: int,
        leader_id: int,
        replicas: Iterable[int] = (1, 2),
        *,
        partition_epoch: int | None = None,
        uses_diverging_epochs: bool = True,
        quota: ReplicationQuota | None = None,
        settings: FetcherSettings | None = None,
    ) -> Fetcher:
        state = LeaderAndIsr(
            leader_id, epoch, (), tuple(replicas), epoch if partition_epoch is None else partition_epoch
        )
        self.partition.become_follower(state)
        self.leader_id = leader_id
        self.fetcher = Fetcher(
            self.broker_id,
            leader_id,
            settings or FetcherSettings(wait_ms_max=0, backoff_ms=0),
            self.manager,
            self.clock.wall_ms,
            uses_diverging_epochs=uses_diverging_epochs,
            quota=quota,
        )
        self.fetcher.add(self.partition)
        return self.fetcher

    def crash(self, *, high_watermark: int | None = None, end_offset: int | None = None) -> None:
        """Lose what is in memory, come back with the high watermark of the checkpoint, and perhaps a shorter log."""
        checkpoint = self.log.high_watermark if high_watermark is None else high_watermark
        self.log.close()
        log = reopen(self.log, self.config)
        if end_offset is not None:
            log.truncate_to(end_offset, self.clock.wall_ms())
        self._start(log)
        log.update_high_watermark(checkpoint)

    # --- records ---

    def produce(self, *contents: bytes, acks: int = 1) -> int:
        """Append one batch; the offset after it. Acknowledged ends go to `acknowledged`, errors to `refused`."""
        info = self.partition.append(batch(*contents), acks, self.clock.wall_ms())
        end = info.last_offset + 1

        def respond(errors: Errors) -> None:
            error = errors[0] if errors else None
            if error is None:
                self.acknowledged.append(end)
            else:
                self.refused.append((end, error.code))

        self.manager.staged(self.partition)
        self.manager.answer_when_written(PendingProduce(((self.partition, end),), acks, 30_000, respond))
        self.manager.end_turn()
        return end

    def produce_all(self, *contents: bytes) -> int:
        return self.produce(*contents, acks=ACKS_ALL)

    @property
    def values(self) -> list[bytes | None]:
        """The values of all records, in order."""
        return read_values(self.log, self.log.log_start_offset)

    @property
    def marks(self) -> tuple[int, int]:
        """High watermark and log end offset."""
        return self.log.high_watermark, self.log.log_end_offset

    def remote_end(self, replica: int) -> int:
        """Where the leader believes a follower's log to end; 0 as long as it knows nothing."""
        return max(self.partition.replica_set.followers[replica].log_end_offset, 0)

    # --- fetching ---

    def serve(self, request: FetchRequest) -> FetchResponse:
        """The answer to a follower's request that does not wait."""
        request.max_wait_ms = 0
        (response,) = self.serve_later(request)
        return response

    def serve_later(self, request: FetchRequest) -> list[FetchResponse]:
        """Where the answer to a follower's request is, or will be; both go through the wire format."""
        body = request.encode(FETCH_VERSION)
        spans = decode_request(bytearray(body), 0, len(body), FETCH_VERSION)
        context = self.sessions.open(spans, True, {TOPIC_ID: TOPIC}.get, self.clock.monotonic_ms())
        if context.error:
            return [FetchResponse(error_code=context.error)]
        parameters = FetchParameters(
            spans.replica_id, spans.max_wait_ms, spans.min_bytes, spans.max_bytes, 0, is_first_batch_whole=True
        )
        responses: list[FetchResponse] = []

        def respond(replies: list[PartitionReply]) -> None:
            encoded = encode_response(1, FETCH_VERSION, context.select(replies), session_id=context.session_id)
            chunks: Any = [encoded] if isinstance(encoded, bytes) else encoded
            frame = b"".join(chunk if isinstance(chunk, bytes) else chunk.read() for chunk in chunks)[4:]
            responses.append(FetchResponse.decode(frame, FETCH_VERSION, response_body_offset(1, FETCH_VERSION, frame)))

        self.manager.fetch(parameters, context.wanted, respond, self.fail)
        self.manager.end_turn()
        return responses

    def ask(self, leader: Replica) -> FetchResponse | None:
        """Send the next request; the response is on its way."""
        assert self.fetcher is not None, "it follows"
        request = self.fetcher.build_fetch(self.clock.monotonic_ms())
        return None if request is None else leader.serve(request)

    def lose(self) -> None:
        """The response to the last request does not come: the connection is gone."""
        assert self.fetcher is not None, "it follows"
        self.fetcher.on_fetch_failed(self.clock.monotonic_ms())

    def take(self, response: FetchResponse | None) -> None:
        """Receive a response."""
        if response is not None and self.fetcher is not None:
            for _ in self.fetcher.on_fetch(response, self.clock.monotonic_ms()):
                pass
            self.manager.end_turn()

    def follow(self, leader: Replica) -> None:
        """One round: request, response, append."""
        self.take(self.ask(leader))


class View:
    """The cluster as a replica sees it."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.rules = ReplicaRules(LAG_MS_MAX, replica.alive.__contains__)

    def is_known(self, _topic: str, _index: int) -> bool:
        return False

    def rack_of(self, broker_id: int, _listener: str) -> str | None:
        return f"rack-{broker_id}"

    def propose(self, _partition: Partition, proposal: IsrProposal) -> None:
        self._replica.proposals.append(proposal)
