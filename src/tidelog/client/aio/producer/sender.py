"""The sender: sends due batches to their leaders and handles the responses.

One turn: raise the epoch if a sequence gap needs it, expire batches, find due batches, and send requests to each broker
that can take one. New records, responses and a timer start a turn; between turns nothing runs. All decisions are in the
accumulator, the sequence tracker and `judge`; this module has the loop, the timer and the order of steps.

Results are reported (`_report_outcomes`) after the lock is released, because callbacks may send records.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from tidelog.client.aio.connection import BrokerConnection
from tidelog.client.aio.network import NetworkClient
from tidelog.client.aio.producer.accumulator import NEVER, Accumulator
from tidelog.client.aio.producer.batch import ProducerBatch, RecordsRefusedError
from tidelog.client.aio.producer.frames import TOPIC_IDS_FROM, VERSION_MIN, produce_frame
from tidelog.client.aio.producer.sequences import ProducerIdentity, SequenceTracker
from tidelog.client.aio.producer.settings import ProducerSettings
from tidelog.client.aio.producer.transactions import Transactions
from tidelog.client.aio.producer.verdicts import Verdict, judge
from tidelog.client.aio.reactions import Reaction, error_code_of, reaction_to
from tidelog.client.backoff import Backoff
from tidelog.client.errors import ApiError, ClientError, DeadlinePassed, UnsupportedByBroker
from tidelog.client.types import BrokerNode, TopicPartition
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from tidelog.wire.primitives import NO_UUID

_log = logging.getLogger("tidelog.client.producer")

_LONGEST_SLEEP_MS: Final = 10_000
_ADDING_FROM: Final = 12
"""The first version of a Produce that adds its partitions to the transaction."""

# A batch refused with one of these may be in the log all the same.
_MAYBE_STORED: Final = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class Sender:
    """Sends what the accumulator holds."""

    def __init__(
        self,
        settings: ProducerSettings,
        client: NetworkClient,
        accumulator: Accumulator,
        sequence_tracker: SequenceTracker | None,
        lock: AbstractContextManager[Any],
        on_memory: Callable[[], None],
    ) -> None:
        self.transactions: Transactions | None = None
        self.fatal: Exception | None = None
        """Why nothing can be sent any more, if so."""
        self._settings = settings
        self._client = client
        self._accumulator = accumulator
        self._sequence_tracker = sequence_tracker
        self._lock = lock
        self._on_memory = on_memory
        self._loop = asyncio.get_running_loop()
        self._backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False
        self._is_stopped = False
        self._identifying: asyncio.Task[None] | None = None
        self._in_flight: dict[ProducerBatch, None] = {}
        self._outcomes: list[Callable[[], None]] = []

    def wake(self) -> None:
        """Have a turn soon. Only from the loop's thread."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def waker_for_threads(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        """`wake` for other threads: they reach the loop once per turn, not once per batch."""

        def wake() -> None:
            if not self._is_scheduled:
                self._is_scheduled = True
                loop.call_soon_threadsafe(self._turn)

        return wake

    def stop(self) -> None:
        """No more turns."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def fail_all(self, error: Exception, *, only_unsent: bool = False) -> None:
        """Give up what waits, and unless `only_unsent` what is on its way too."""
        with self._lock:
            for batch in self._accumulator.take_all(only_unsent=only_unsent):
                self._give_up(batch, error, ErrorCode.UNKNOWN_SERVER_ERROR)
            if not only_unsent:
                self._in_flight.clear()
                for batch in list(self._accumulator.incomplete):
                    self._give_up(batch, error, ErrorCode.UNKNOWN_SERVER_ERROR, buffer_is_free=False)
        self._report_outcomes()

    # A turn.

    def _turn(self) -> None:
        if self._is_stopped:
            return
        self._is_scheduled = False
        try:
            next_ms = self._send_due(self._client.now_ms())
        except Exception as error:  # noqa: BLE001 - every delivery gets it
            # A bug, or out of memory. Batches may be neither queued nor sent: their deliveries must fail, and later
            # records must not overtake them.
            _log.exception("the sender failed; close this producer")
            self.fatal = error
            self.fail_all(error)
            return
        self._report_outcomes()
        self._sleep(next_ms)

    def _send_due(self, now_ms: int) -> int:
        """Send what is due; milliseconds until something else will be."""
        with self._lock:
            self._prepare(now_ms)
            ready = self._accumulator.ready(now_ms)
            for node_id, queues in ready.nodes.items():
                connection = self._client.ready_connection(node_id, self.wake)
                while connection is not None:
                    batches = self._accumulator.drain(queues, now_ms, self._settings.max_request_size)
                    if not batches:
                        break
                    self._send(connection, batches, now_ms)
                    connection = self._client.ready_connection(node_id, self.wake)
            if ready.nodes:
                # What is behind the batches just sent, or was refused a connection, has times of its own.
                ready = self._accumulator.ready(now_ms)
        if ready.has_leaderless:
            self._client.request_refresh()
        return min(ready.look_again_ms, self._accumulator.expiry_in_ms(now_ms))

    def _sleep(self, next_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if next_ms != NEVER and not self._is_scheduled:
            self._timer = self._loop.call_later(max(1, min(next_ms, _LONGEST_SLEEP_MS)) / 1000, self.wake)

    def _prepare(self, now_ms: int) -> None:
        # First, as what is given up may need another epoch: batches behind it wait for that and for nothing else.
        self._expire(now_ms)
        sequence_tracker = self._sequence_tracker
        if sequence_tracker is not None:
            sequence_tracker.bump_if_needed()
            if (
                sequence_tracker.needs_identity
                and not sequence_tracker.is_transactional
                and self._identifying is None
                and self.fatal is None
            ):
                self._identifying = self._client.spawn(self._identify())
            if sequence_tracker.lost_track and self.transactions is not None:
                self.transactions.fail(
                    DeadlinePassed("records expired without a response; whether they were stored is unknown")
                )
        if self.transactions is not None:
            for queue in self._accumulator.outside_transaction():
                queue.is_in_transaction = self.transactions.may_send_to(queue.where)

    def _expire(self, now_ms: int) -> None:
        if self._accumulator.expiry_in_ms(now_ms) > 0:
            return
        limit_ms = self._settings.delivery_timeout_ms
        for batch in self._accumulator.expire(now_ms):
            self._give_up_late(batch, f"not sent within delivery.timeout.ms={limit_ms}", buffer_is_free=True)
        for batch in list(self._in_flight):
            if now_ms - batch.created_ms >= limit_ms:
                del self._in_flight[batch]
                self._give_up_late(batch, f"no response within delivery.timeout.ms={limit_ms}", buffer_is_free=False)

    # Requests.

    def _send(self, connection: BrokerConnection, batches: Sequence[ProducerBatch], now_ms: int) -> None:
        settings = self._settings
        try:
            version, topic_ids = self._version_and_ids(connection, batches)
            if version < VERSION_MIN:
                raise UnsupportedByBroker(
                    f"the broker at {connection.address} does not support record batches of magic 2"
                )
            correlation_id = connection.next_correlation_id()
            frame = produce_frame(
                version,
                correlation_id,
                settings.client_id,
                None if self.transactions is None else self.transactions.transactional_id,
                settings.acks,
                settings.request_timeout_ms,
                batches,
                topic_ids,
            )
            if settings.acks == 0:
                connection.send_frame_without_reply(frame)
            else:
                future = connection.send_frame(frame, ApiKey.PRODUCE, version, correlation_id, ProduceResponse.decode)
        except ClientError as error:
            self._unsent(batches, error, now_ms)
            return
        if settings.acks == 0:
            for batch in batches:
                self._accumulator.unmute(batch)
                self._stored(batch, -1, -1, buffer_is_free=False)
            self.wake()
            return
        for batch in batches:
            self._in_flight[batch] = None
        future.add_done_callback(lambda done: self._answered(batches, topic_ids, done))

    def _version_and_ids(
        self, connection: BrokerConnection, batches: Sequence[ProducerBatch]
    ) -> tuple[int, dict[str, bytes] | None]:
        """The version of the request, and the ids of its topics if it has them."""
        version = connection.version_of(ProduceRequest)
        if self.transactions is not None and not self.transactions.adds_by_writing:
            version = min(version, _ADDING_FROM - 1)
        elif self.transactions is not None and version < _ADDING_FROM:
            raise UnsupportedByBroker(
                f"the broker at {connection.address} does not support transactions of version 2, which the cluster has"
            )
        if version < TOPIC_IDS_FROM:
            return version, None
        topic_id = self._client.metadata.topic_id
        topic_ids = {batch.topic: topic_id(batch.topic) for batch in batches}
        return (TOPIC_IDS_FROM - 1, None) if NO_UUID in topic_ids.values() else (version, topic_ids)

    def _unsent(self, batches: Sequence[ProducerBatch], error: ClientError, now_ms: int) -> None:
        """Nothing was written: a connection just lost counts as such, all else is final."""
        is_retriable = reaction_to(error).is_retriable
        for batch in batches:
            self._accumulator.unmute(batch)
            if is_retriable:
                self._accumulator.requeue(batch, now_ms)
            else:
                self._give_up(batch, error, ErrorCode.UNSUPPORTED_VERSION)

    def _answered(
        self,
        batches: Sequence[ProducerBatch],
        topic_ids: Mapping[str, bytes] | None,
        future: "asyncio.Future[ProduceResponse]",
    ) -> None:
        now_ms = self._client.now_ms()
        error = None if future.cancelled() else future.exception()
        with self._lock:
            if error is not None or future.cancelled():
                lost = PartitionProduceResponse(
                    error_code=ErrorCode.NETWORK_EXCEPTION, error_message=str(error), base_offset=-1
                )
                for batch in batches:
                    self._settle(batch, lost, (), now_ms)
                self._client.request_refresh()
            else:
                self._settle_all(batches, topic_ids, future.result(), now_ms)
        self._report_outcomes()
        self.wake()

    def _settle_all(
        self,
        batches: Sequence[ProducerBatch],
        topic_ids: Mapping[str, bytes] | None,
        reply: ProduceResponse,
        now_ms: int,
    ) -> None:
        nodes = [BrokerNode(each.node_id, each.host, each.port, each.rack) for each in reply.node_endpoints]
        if len(batches) == 1:
            self._settle(batches[0], reply.responses[0].partition_responses[0], nodes, now_ms)
            return
        responses = {
            (topic.name if topic_ids is None else topic.topic_id, each.index): each
            for topic in reply.responses
            for each in topic.partition_responses
        }
        for batch in batches:
            topic_key = batch.topic if topic_ids is None else topic_ids[batch.topic]
            self._settle(batch, responses[topic_key, batch.partition], nodes, now_ms)

    # Answers.

    def _settle(
        self, batch: ProducerBatch, response: PartitionProduceResponse, nodes: Sequence[BrokerNode], now_ms: int
    ) -> None:
        self._accumulator.unmute(batch)
        if batch not in self._in_flight:
            return  # it was given up while it was on its way
        del self._in_flight[batch]
        if not response.error_code:
            self._stored(batch, response.base_offset, response.log_append_time_ms)
            return
        if reaction_to(response.error_code) is Reaction.REFRESH_METADATA:
            self._learn_leader(batch, response, nodes)
        verdict = judge(
            batch,
            response.error_code,
            response.log_start_offset,
            settings=self._settings,
            now_ms=now_ms,
            sequence_tracker=self._sequence_tracker,
            sequences=self._accumulator.queue_of(batch).sequences,
        )
        if verdict is Verdict.STORED:
            self._stored(batch, response.base_offset, response.log_append_time_ms)
        elif verdict is Verdict.DIVIDE:
            self._accumulator.divide(batch)
        elif verdict is Verdict.RETRY and self.fatal is None:
            self._accumulator.requeue(batch, now_ms)
        else:
            self._give_up(
                batch,
                _error_of(batch, response),
                response.error_code,
                may_be_stored=response.error_code in _MAYBE_STORED,
            )

    def _learn_leader(
        self, batch: ProducerBatch, response: PartitionProduceResponse, nodes: Sequence[BrokerNode]
    ) -> None:
        leader = response.current_leader
        where = TopicPartition(batch.topic, batch.partition)
        if self._client.metadata.update_leader(where, leader.leader_id, leader.leader_epoch, nodes):
            known = self._client.metadata.topic(batch.topic)
            assert known is not None, "update_leader knew the topic"
            self._accumulator.learn(known, self._client.metadata)
        else:
            self._client.request_refresh()

    def _stored(
        self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int, *, buffer_is_free: bool = True
    ) -> None:
        queue = self._accumulator.queue_of(batch)
        queue.records_stored += batch.count
        queue.bytes_stored += batch.encoded_bytes
        queue.batches_stored += 1
        if self._sequence_tracker is not None:
            assert queue.sequences is not None
            self._sequence_tracker.completed(queue.sequences, batch, base_offset)
        self._accumulator.finish(batch, buffer_is_free=buffer_is_free)
        self._outcomes.append(lambda: batch.complete(base_offset, log_append_time_ms))

    def _give_up(
        self,
        batch: ProducerBatch,
        error: Exception,
        code: int,
        *,
        may_be_stored: bool = False,
        buffer_is_free: bool = True,
    ) -> None:
        queue = self._accumulator.queue_of(batch)
        queue.records_failed += batch.count
        if self._sequence_tracker is not None and batch.has_sequence:
            assert queue.sequences is not None
            if may_be_stored:
                self._sequence_tracker.given_up_unanswered(queue.sequences, batch)
            else:
                self._sequence_tracker.failed(queue.sequences, batch, code)
        self._accumulator.finish(batch, buffer_is_free=buffer_is_free)
        if self.transactions is not None:
            self.transactions.fail(error)
        self._outcomes.append(lambda: batch.fail(error))

    def _give_up_late(self, batch: ProducerBatch, why: str, *, buffer_is_free: bool) -> None:
        error = DeadlinePassed(f"{batch.count} records for {batch.topic}-{batch.partition} {why}")
        self._give_up(batch, error, ErrorCode.REQUEST_TIMED_OUT, may_be_stored=True, buffer_is_free=buffer_is_free)

    def _report_outcomes(self) -> None:
        """Report results, in the order in which they became known."""
        outcomes, self._outcomes = self._outcomes, []
        if outcomes:
            for report in outcomes:
                report()
            self._on_memory()

    # Identity.

    async def _identify(self) -> None:
        """Get a producer id; retried until it is there, since nothing can be sent without."""
        failures = 0
        try:
            while self._sequence_tracker is not None and self._sequence_tracker.needs_identity:
                try:
                    await self._ask_identity(self._sequence_tracker)
                except ClientError as error:
                    if not reaction_to(error).is_retriable:
                        self.fatal = error
                        self.fail_all(error)
                        return
                    failures += 1
                    await asyncio.sleep(self._backoff.after(failures) / 1000)
        finally:
            self._identifying = None
            self.wake()

    async def _ask_identity(self, sequence_tracker: SequenceTracker) -> None:
        request = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=self._settings.transaction_timeout_ms
        )
        reply = await self._client.send_to_any(request, InitProducerIdResponse)
        if reply.error_code:
            code = error_code_of(reply.error_code)
            raise ApiError(code, f"no producer id: {code.text}")
        with self._lock:
            sequence_tracker.take_identity(ProducerIdentity(reply.producer_id, reply.producer_epoch))


def _error_of(batch: ProducerBatch, response: PartitionProduceResponse) -> ApiError:
    code = error_code_of(response.error_code)
    error = ApiError(code, f"{batch.topic}-{batch.partition}: {response.error_message or code.text}")
    if response.record_errors:
        return RecordsRefusedError(
            error, {each.batch_index: each.batch_index_error_message for each in response.record_errors}
        )
    return error
