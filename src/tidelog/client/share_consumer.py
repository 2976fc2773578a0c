"""The share consumer for programs without an event loop of their own.

    with ShareConsumer({"bootstrap.servers": "localhost:9092", "group.id": "invoices"}) as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            ...

The same as `AsyncShareConsumer`, which says more about each call. Heartbeats and fetches run in a background thread.
Callbacks of acknowledgements are called in the thread that calls the consumer, deserializers in the background thread.
It serves one thread at a time; only `wakeup` may come from another one.
"""

import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Unpack

from tidelog.client.aio.consumer.caller_thread import CallerThread
from tidelog.client.aio.consumer.errors import ConcurrentAccess
from tidelog.client.aio.share.consumer import CLOSE_TIMEOUT_S, AsyncShareConsumer
from tidelog.client.aio.share.types import RELEASED, AcknowledgeType, ShareRecord
from tidelog.client.errors import ClientClosed
from tidelog.client.faces import Face, Result, blocking, called_there
from tidelog.client.metrics import ClientMetrics
from tidelog.client.serialization import K, V

if TYPE_CHECKING:
    from tidelog.client.aio.share.options import ShareConsumerOptions

# Long enough to cost nothing, short enough that Ctrl-C is seen soon where a wait cannot be interrupted.
_ITERATION_POLL_S = 1.0


class ShareConsumer(Face[AsyncShareConsumer[K, V]], Generic[K, V]):
    """Reads records of topics as a member of a share group, whose members share partitions record by record.

    Keys are of type `K` and values of type `V`: bytes, or what deserializers make of them.
    """

    def __init__(
        self, config: Mapping[str, Any] | None = None, **settings: "Unpack[ShareConsumerOptions[K, V]]"
    ) -> None:
        """Settings under Kafka's names: dotted in `config`, with underscores as keywords."""
        super().__init__(AsyncShareConsumer(config, **settings), "tidelog-share-consumer")
        self._caller = CallerThread(self._background)
        self._owner: int | None = None
        self._is_closing = False
        self._is_closed = False
        self._engine = self._background.run_first(self._async._start_for_thread(self._caller.invoke))
        self._background.end_with(self, self._engine.drop)

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """One thread at a time; a callback that runs inside its call may call again."""
        if self._is_closed:
            raise ClientClosed("this consumer is closed")
        thread, before = threading.get_ident(), self._owner
        if before is not None and before != thread:
            raise ConcurrentAccess(f"a share consumer can be used by one thread at a time; thread {before} is using it")
        self._owner = thread
        try:
            yield
        finally:
            self._owner = before

    def _wait_for(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._caller.run(work)

    subscribe = blocking(AsyncShareConsumer.subscribe)
    unsubscribe = blocking(AsyncShareConsumer.unsubscribe)

    @property
    def subscription(self) -> frozenset[str]:
        """The topics subscribed to."""
        return self._async.subscription

    # Reading.

    def poll(self, timeout_s: float = 1.0) -> list[ShareRecord[K, V]]:
        """Records as soon as there are some, about max.poll.records at most; none when `timeout_s` has passed.

        Sends the acknowledgements. With share.acknowledgement.mode=implicit, records that the last poll returned are
        accepted; with explicit, IllegalState is raised if one of them was not acknowledged.
        """
        with self._calling():
            before = self._engine.unclaimed
            try:
                return self._caller.run(self._async.poll(timeout_s))
            except BaseException:
                # What a signal's handler raised while the poll was under way must not lose the records that it took.
                if self._background.is_alive:
                    self._caller.run(self._engine.reclaim(before))
                raise

    def __iter__(self) -> Iterator[ShareRecord[K, V]]:
        """Records one by one, for ever.

        With share.acknowledgement.mode=implicit, a record is accepted when the loop goes on to the next one: the one
        at which it is left is released, for it may not have been processed.
        """
        record: ShareRecord[K, V] | None = None
        try:
            while True:
                record = self._async._next_held(record)
                if record is None:
                    self._async._held.put_back(self.poll(_ITERATION_POLL_S))
                else:
                    yield record
        finally:
            self._async._pass(record, RELEASED)

    # Acknowledging: neither of these needs the loop.

    def acknowledge(
        self,
        record: ShareRecord[Any, Any],
        type: AcknowledgeType = AcknowledgeType.ACCEPT,  # noqa: A002 - Kafka's own name
        *,
        delay_s: float | None = None,
    ) -> None:
        """Note how a record of the last poll is acknowledged; the next poll or commit sends it.

        `delay_s` lets a released record wait before it is delivered again; brokers other than Tidelog ignore it.
        """
        with self._calling():
            self._async.acknowledge(record, type, delay_s=delay_s)

    def acknowledge_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        type: AcknowledgeType = AcknowledgeType.ACCEPT,  # noqa: A002 - Kafka's own name
        *,
        delay_s: float | None = None,
    ) -> None:
        """The same by offset, for a record that a poll could not return: one that cannot be deserialized."""
        with self._calling():
            self._async.acknowledge_offset(topic, partition, offset, type, delay_s=delay_s)

    commit = blocking(AsyncShareConsumer.commit)
    commit_async = called_there(AsyncShareConsumer.commit_async)
    set_acknowledgement_commit_callback = called_there(AsyncShareConsumer.set_acknowledgement_commit_callback)

    @property
    def acquisition_lock_timeout_s(self) -> float | None:
        """How long a lock lasts, as the group's settings say; None until a broker has answered a fetch."""
        return self._async.acquisition_lock_timeout_s

    def metrics(self) -> ClientMetrics:
        """Metrics of the connections of this consumer."""
        return self._background.call(self._async.metrics)

    # Ending.

    def wakeup(self) -> None:
        """Make the waiting call, or the next one that would wait, raise Woken. May be called from any thread."""
        if not self._is_closed:
            self._background.call_soon(self._engine.wakeup)

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Send acknowledgements, release what has none, leave the group and end; within `timeout_s`.

        A second call does nothing.
        """
        if self._is_closing:
            return
        with self._calling():
            self._is_closing = True
            try:
                self._wait_for(self._async.close(timeout_s))
            finally:
                self._is_closed = True
                self._background.close()
