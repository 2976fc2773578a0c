"""A cluster for synchronous programs that divide work among processes: an admin, and single fetches and transactions.

    with Cluster(bootstrap_servers="localhost:9092") as cluster:
        handle = cluster.begin_transaction("copy-1", timeout_ms=60_000)
        next_bytes = cluster.begin_fetch(TopicPartition("orders", 0), 17, FetchLimits(1 << 20))

Offsets and transactions are kept by the caller: ranges of offsets are fetched without a position, and any process that
has a `TransactionHandle` takes part in its transaction. Calls are repeated while the cluster is on the move, as those
of an admin are, but for `begin_fetch`, whose caller decides what an error means.
"""

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from tidelog.client.admin import Admin
from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.consumer.completed_fetch import CompletedFetch, Decoding
from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.client.aio.metadata import TopicMetadata, topic_from
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.producer.coordination import TransactionCoordinator
from tidelog.client.aio.producer.sequences import ProducerIdentity
from tidelog.client.aio.producer.transaction_state import TransactionHandle
from tidelog.client.aio.reactions import check_code, refusal
from tidelog.client.errors import ApiError, DeadlinePassed
from tidelog.client.fetch_session import LAST_VERSION_WITH_NAMES
from tidelog.client.patience import Patience
from tidelog.client.types import Places, TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

__all__ = ["Cluster", "FetchLimits", "TopicsSeen"]

Result = TypeVar("Result")


class FetchLimits(NamedTuple):
    """How much a fetch may bring, and how long the broker may wait for it."""

    partition_bytes_max: int
    wait_ms_max: int = 0
    bytes_min: int = 1
    read_committed: bool = False


_GONE: Final = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_READING: Final = FetchLimits(1024 * 1024, wait_ms_max=100)
_PLAIN: Final = Decoding()
_AT_ONCE: Final = 10_000


class TopicsSeen(NamedTuple):
    """Topics as one broker describes them, without unknown ones."""

    topics: dict[str, TopicMetadata]
    has_controller: bool
    """Whether the broker knew the controller: a broker that has just started may lack metadata."""


class Cluster(Admin):
    """A cluster. Settings are those of an admin; safe to share between threads."""

    # Topics.

    def look_at_topics(self, names: Iterable[str] | None = None) -> TopicsSeen:
        """The topics of these names (None: all) as one broker sees them now."""
        return self._run(lambda driver: _look_at_topics(driver, None if names is None else list(names)))

    def partition_count(self, topic: str, *, may_create: bool = False, is_expected: bool = False) -> int:
        """How many partitions a topic has. Raises ApiError if there is no such topic.

        One that is `is_expected`, because it was just made, or that the brokers `may_create`, is waited for.
        """
        return self._run(lambda driver: _partition_count(driver, topic, may_create, may_create or is_expected))

    def forget(self) -> None:
        """Request a metadata refresh: a leader has moved."""
        self._background.call(self._async._running.client.request_refresh)

    # Fetching.

    def begin_fetch(self, where: TopicPartition, offset: int, limits: FetchLimits) -> "Future[PartitionData]":
        """Ask the leader of a partition for what it has from `offset` on, and return at once.

        The future raises ApiError for any error code. Nothing is repeated.
        """
        return self._background.submit(self._fetch_one(where, offset, limits))

    async def _fetch_one(self, where: TopicPartition, offset: int, limits: FetchLimits) -> PartitionData:
        driver = await self._async._knowing([where])
        data = (await _fetch_once(driver.client, await driver.to_leader(where), {where: offset}, limits))[where]
        check_code(data.error_code, where)
        return data

    def fetch(
        self, offsets: Mapping[TopicPartition, int], limits: FetchLimits = _READING
    ) -> dict[TopicPartition, PartitionData]:
        """What partitions have from these offsets on. One that is refused raises as with calls of an admin."""
        return self._run(lambda driver: _fetch(driver, offsets, limits), offsets)

    def read(
        self,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
    ) -> Iterator[ConsumerRecord[bytes, bytes]]:
        """The records from `starts` to before `ends`, in order within a partition.

        Raises DeadlinePassed if nothing comes for default.api.timeout.ms, as behind an open transaction.
        """
        positions = {where: offset for where, offset in starts.items() if offset < ends[where]}
        limits = _READING._replace(read_committed=read_committed)
        patience = Patience(self._async.settings.default_api_timeout_ms / 1000)
        while positions:
            before = dict(positions)
            for where, data in self.fetch(positions, limits).items():
                yield from _records(where, data, positions, ends, read_committed)
            if positions != before:
                patience.renew()
            elif not patience.pause():
                where, offset = next(iter(positions.items()))
                raise DeadlinePassed(f"{where}: no records from offset {offset} on, before the end {ends[where]}")

    # Groups.

    def begin_group_commit(self, group_id: str, offsets: Places) -> "Future[None]":
        """Set what a group without members has committed, and return at once."""
        return self._background.submit(self._async.alter_consumer_group_offsets(group_id, offsets))

    # Transactions.

    def begin_transaction(
        self, transactional_id: str, timeout_ms: int, *, max_block_ms: int | None = None
    ) -> TransactionHandle:
        """Take a transactional id: what was open under it is finished, its former holder is fenced."""

        async def begin(driver: Driver) -> TransactionHandle:
            coordinator = _coordinator(driver, transactional_id, max_block_ms)
            return TransactionHandle(transactional_id, *await coordinator.init_producer_id(timeout_ms))

        return self._run(begin)

    def add_to_transaction(self, handle: TransactionHandle, partitions: Collection[TopicPartition]) -> None:
        """Bring partitions into a transaction, before anything is written to them."""
        self._run(
            lambda driver: _coordinator(driver, handle.transactional_id).add_partitions(_identity(handle), partitions)
        )

    def partitions_in_transaction(self, handle: TransactionHandle) -> set[TopicPartition]:
        """The partitions in an open transaction. Raises PRODUCER_FENCED if it is not the one of `handle` any more."""
        state = self.describe_transactions([handle.transactional_id])[handle.transactional_id]
        if (state.producer_id, state.producer_epoch) != _identity(handle):
            raise refusal(ErrorCode.PRODUCER_FENCED, f"transactional id {handle.transactional_id!r}")
        return set(state.partitions)

    def end_transaction(self, handle: TransactionHandle, *, is_commit: bool, max_block_ms: int | None = None) -> None:
        """Commit or abort."""

        async def end(driver: Driver) -> None:
            coordinator = _coordinator(driver, handle.transactional_id, max_block_ms)
            await coordinator.end(_identity(handle), is_commit=is_commit)

        self._run(end)

    def fence_transaction(self, handle: TransactionHandle, timeout_ms: int, *, max_block_ms: int | None = None) -> None:
        """Abort a transaction and fence every process that still writes in it; a later one of the same id goes on.

        EndTxn aborts only in the epoch it names; but then a process that is still at work could begin again in that
        epoch, so the epoch is raised. InitProducerId alone would not do: it aborts whatever is open, a successor's too.
        """

        async def fence(driver: Driver) -> None:
            coordinator = _coordinator(driver, handle.transactional_id, max_block_ms)
            try:
                await coordinator.end(_identity(handle), is_commit=False)
            except ApiError as error:
                # Nothing was added yet, or it has ended already. Any other answer says that the id has a new owner.
                if error.code is not ErrorCode.INVALID_TXN_STATE:
                    return
            await coordinator.init_producer_id(timeout_ms, _identity(handle))

        self._run(fence)

    def _run(
        self, call: Callable[[Driver], Coroutine[Any, Any, Result]], known: Iterable[TopicPartition] = ()
    ) -> Result:
        async def work() -> Result:
            return await call(await self._async._knowing(known))

        return self._background.run(work())


async def _look_at_topics(driver: Driver, names: list[str] | None) -> TopicsSeen:
    wanted = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)

    async def ask(node_id: int, items: list[str]) -> Answers[str, TopicsSeen]:
        reply = await driver.client.send(node_id, request, MetadataResponse)
        found: dict[str, TopicMetadata] = {}
        for topic in reply.topics:
            if topic.error_code not in _GONE:
                return {items[0]: refusal(topic.error_code, f"topic {topic.name!r}")}
            if topic.name is not None and topic.error_code == ErrorCode.NONE:
                found[topic.name] = topic_from(topic)
        return {items[0]: TopicsSeen(found, reply.controller_id >= 0)}

    return (await driver.run([""], driver.to_any, ask))[""]


async def _partition_count(driver: Driver, topic: str, may_create: bool, is_expected: bool) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=may_create)

    async def ask(node_id: int, items: list[str]) -> Answers[str, int]:
        (found,) = (await driver.client.send(node_id, request, MetadataResponse)).topics
        code = found.error_code
        if is_expected and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return {items[0]: answer_of(code, None, len(found.partitions), f"topic {topic!r}")}

    return (await driver.run([topic], driver.to_any, ask))[topic]


async def _fetch(
    driver: Driver, offsets: Mapping[TopicPartition, int], limits: FetchLimits
) -> dict[TopicPartition, PartitionData]:
    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, PartitionData]:
        fetched = await _fetch_once(driver.client, node_id, {where: offsets[where] for where in items}, limits)
        return {where: answer_of(data.error_code, None, data, where) for where, data in fetched.items()}

    return await driver.run(offsets, driver.to_leader, ask)


async def _fetch_once(
    client: NetworkClient, node_id: int, offsets: Mapping[TopicPartition, int], limits: FetchLimits
) -> dict[TopicPartition, PartitionData]:
    """One Fetch outside of any session: what one broker has of partitions from `offsets` on. Nothing is decoded.

    Errors of single partitions are in their data.
    """
    topics: dict[str, FetchTopic] = {}
    for (name, partition), offset in offsets.items():
        topic = topics.setdefault(name, FetchTopic(topic=name, partitions=[]))
        topic.partitions.append(
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=limits.partition_bytes_max)
        )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=limits.wait_ms_max,
        min_bytes=limits.bytes_min,
        max_bytes=limits.partition_bytes_max * len(offsets),
        isolation_level=int(limits.read_committed),
        topics=list(topics.values()),
    )
    reply = await client.send(node_id, request, FetchResponse, at_most=LAST_VERSION_WITH_NAMES)
    check_code(reply.error_code, "Fetch")
    return {
        TopicPartition(topic.topic, data.partition_index): data
        for topic in reply.responses
        for data in topic.partitions
    }


def _records(
    where: TopicPartition,
    data: PartitionData,
    positions: dict[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    read_committed: bool,
) -> Iterator[ConsumerRecord[bytes, bytes]]:
    """The records of one answer before the end. The position moves with what is handed out, and past the rest."""
    aborted = None
    if read_committed:
        aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    fetch = CompletedFetch(where, positions[where], data.records or b"", _PLAIN, aborted)
    while not fetch.is_done and fetch.next_offset < ends[where]:
        records = fetch.take(_AT_ONCE)
        for record in records:
            if record.offset < ends[where]:
                positions[where] = record.offset + 1
                yield record
        positions[where] = fetch.next_offset
    if positions[where] >= ends[where]:
        del positions[where]


def _coordinator(driver: Driver, transactional_id: str, max_block_ms: int | None = None) -> TransactionCoordinator:
    limit_ms = driver.api_timeout_ms if max_block_ms is None else max_block_ms
    return TransactionCoordinator(driver.client, transactional_id, max_block_ms=limit_ms)


def _identity(handle: TransactionHandle) -> ProducerIdentity:
    return ProducerIdentity(handle.producer_id, handle.producer_epoch)
