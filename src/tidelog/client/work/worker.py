"""Workers: a function that is called for each record of topics, as a task is in Celery.

    @worker("invoices", bootstrap_servers="localhost:9092", concurrency=8, timeout_s=60)
    def send_invoice(record):
        ...

    send_invoice.enqueue(b"order-17")   # in the web application
    send_invoice.run()                  # in the worker; or: tidelog work shop.tasks:send_invoice

Workers of one group share the records of their topics, one by one, however many partitions there are. A record whose
handler returns is done. One whose handler raises is tried again after the delays of the policy, and is rejected after
the last one; a group with dead letters keeps it there. If a worker dies, others get its records. See docs/queues.md.
"""

import asyncio
import functools
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Unpack

from tidelog.client.aio.producer.delivery import BlockingDelivery
from tidelog.client.aio.settings import CommonSettings, read_values
from tidelog.client.aio.share.engine import make_decoding
from tidelog.client.aio.share.settings import ShareConsumerSettings, load_share_settings
from tidelog.client.errors import ClientConfigError, IllegalState
from tidelog.client.producer import Producer
from tidelog.client.retry.consumer import call_on_signals
from tidelog.client.retry.policy import RetryPolicy, as_policy
from tidelog.client.types import as_names, milliseconds
from tidelog.client.work.run import Plan, Run, WorkCounts
from tidelog.records.delayed import DELAY_HEADER

if TYPE_CHECKING:
    from tidelog.client.aio.share.options import ShareConsumerOptions

SERVERS: Final = "localhost:9092"
STOP_TIMEOUT_S: Final = 30.0
_OWN: Final = {"share.acknowledgement.mode": "explicit", "share.acquire.mode": "record_limit"}
"""What a worker decides about its consumer."""


class Worker:
    """Calls `handler` for each record of `topics`, `concurrency` at once.

    The handler is a coroutine function, or a plain one, which is called in threads; it gets a `ShareRecord`.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        handler: Callable[[Any], Any],
        policy: RetryPolicy | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        concurrency: int = 1,
        prefetch: int = 0,
        timeout_s: float | None = None,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        begins_at: str = "earliest",
        value_serializer: Any = None,
        **settings: "Unpack[ShareConsumerOptions[Any, Any]]",
    ) -> None:
        """Settings of the consumer under Kafka's names; `group.id` is the handler's name unless it is given.

        `prefetch` records more than run are locked ahead. A handler that takes longer than `timeout_s` has failed.
        `stop_timeout_s` limits how long a stop waits for handlers. A group that is new begins with the records that are
        there already; `begins_at="latest"` leaves them out.
        """
        self.handler = handler
        self.topics = tuple([topics] if isinstance(topics, str) else as_names(topics))
        self.policy = _checked(as_policy(policy))
        self._given = _by_name(config, settings)
        self._limits = (concurrency, prefetch, timeout_s, stop_timeout_s, begins_at)
        self._value_serializer = value_serializer
        self._producer: Producer[Any, Any] | None = None
        self._producer_lock = threading.Lock()
        self._run: Run | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._check_limits()
        self._complete(self._given)
        functools.update_wrapper(self, handler, updated=())

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the handler itself, as a test does."""
        return self.handler(*arguments, **keywords)

    @property
    def group_id(self) -> str:
        """The share group."""
        return str(self._given["group.id"])

    @property
    def has_servers(self) -> bool:
        """Whether bootstrap.servers was given."""
        return "bootstrap.servers" in self._given

    @property
    def counts(self) -> WorkCounts:
        """What was done so far."""
        return WorkCounts() if self._run is None else replace(self._run.counts)

    # Working.

    def run(self, *, stop_on_signals: bool = True, **settings: Any) -> None:
        """Handle records until `stop`, SIGTERM or SIGINT. Signals are only seen in the main thread."""
        is_main = threading.current_thread() is threading.main_thread()
        asyncio.run(self.serve(stop_on_signals=stop_on_signals and is_main, **settings))

    async def serve(
        self,
        *,
        stop_on_signals: bool = False,
        concurrency: int | None = None,
        stop_timeout_s: float | None = None,
        **settings: Any,
    ) -> None:
        """The same under asyncio. What is given here takes the place of what the worker was made with."""
        if self._run is not None:
            raise IllegalState("this worker runs already, or has run; create another")
        self._loop = asyncio.get_running_loop()
        self._run = run = Run(self._plan(settings, concurrency, stop_timeout_s))
        if self._is_stopping:
            return
        async with AsyncExitStack() as stack:
            if stop_on_signals:
                call_on_signals(stack, run.stop)
            await run.serve()

    def stop(self) -> None:
        """Begin no other record; `run` returns when those that run are finished. Any thread may call it."""
        self._is_stopping = True
        if self._run is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._run.stop)

    # Queueing.

    def enqueue(
        self,
        value: Any,
        key: Any = None,
        *,
        headers: Mapping[str, bytes] | None = None,
        delay_s: float | None = None,
    ) -> BlockingDelivery:
        """Queue a record in the worker's topic; `result()` waits until it is stored.

        With `delay_s` it is delivered only then, which needs `tidelog.delay.enable=true` on the topic.
        """
        if len(self.topics) != 1:
            raise IllegalState(f"this worker reads {len(self.topics)} topics; send to one of them with a Producer")
        given = list((headers or {}).items())
        if delay_s is not None:
            given.append((DELAY_HEADER.decode(), b"%dms" % milliseconds(delay_s)))
        return self._sending().send(self.topics[0], value, key, headers=given)

    def close(self) -> None:
        """Send what was queued and close the producer behind `enqueue`."""
        with self._producer_lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _sending(self) -> Producer[Any, Any]:
        with self._producer_lock:
            if self._producer is None:
                common = _common(self._settings({}))
                self._producer = Producer(common, value_serializer=self._value_serializer)
            return self._producer

    # What was given.

    def _settings(self, replaced: Mapping[str, Any]) -> dict[str, Any]:
        """What was given, by name; what is replaced counts more."""
        return {"bootstrap.servers": SERVERS, **self._given, **_by_name(replaced, {})}

    def _complete(self, given: dict[str, Any]) -> None:
        """Add what a worker decides."""
        for name, value in _OWN.items():
            if given.setdefault(name, value) != value:
                raise ClientConfigError(f"{name} must be {value!r} for a worker")
        given.setdefault("group.id", getattr(self.handler, "__name__", None))

    def _check_limits(self) -> None:
        concurrency, prefetch, timeout_s, stop_timeout_s, begins_at = self._limits
        if concurrency < 1 or prefetch < 0:
            raise ClientConfigError(
                f"concurrency={concurrency} must be 1 or higher, and prefetch={prefetch} 0 or higher"
            )
        if (timeout_s is not None and timeout_s <= 0) or stop_timeout_s < 0:
            raise ClientConfigError(f"timeout_s={timeout_s} and stop_timeout_s={stop_timeout_s} must be positive")
        if begins_at not in ("earliest", "latest"):
            raise ClientConfigError(f"begins_at={begins_at!r} must be 'earliest' or 'latest'")

    def _plan(self, replaced: Mapping[str, Any], at_once: int | None, stop_within_s: float | None) -> Plan:
        given = self._settings(replaced)
        settings = load_share_settings(given, {})
        concurrency, prefetch, timeout_s, stop_timeout_s, begins_at = self._limits
        return Plan(
            self.topics,
            settings,
            _common(given),
            make_decoding(settings),
            self.handler,
            self.policy,
            at_once or concurrency,
            prefetch,
            timeout_s,
            stop_timeout_s if stop_within_s is None else stop_within_s,
            begins_at,
        )


def worker(
    topics: str | Iterable[str],
    *,
    policy: RetryPolicy | None = None,
    config: Mapping[str, Any] | None = None,
    concurrency: int = 1,
    prefetch: int = 0,
    timeout_s: float | None = None,
    stop_timeout_s: float = STOP_TIMEOUT_S,
    begins_at: str = "earliest",
    value_serializer: Any = None,
    **settings: "Unpack[ShareConsumerOptions[Any, Any]]",
) -> Callable[[Callable[..., Any]], Worker]:
    """Make a `Worker` of a function; the arguments are those of `Worker`."""

    def decorate(handler: Callable[..., Any]) -> Worker:
        return Worker(
            topics,
            handler,
            policy,
            config,
            concurrency=concurrency,
            prefetch=prefetch,
            timeout_s=timeout_s,
            stop_timeout_s=stop_timeout_s,
            begins_at=begins_at,
            value_serializer=value_serializer,
            **settings,
        )

    return decorate


def _by_name(config: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their names, checked. Where the servers are may be said later."""
    names = {name.replace("_", ".") for name in (*(config or ()), *keywords)}
    added = {} if "bootstrap.servers" in names else {"bootstrap_servers": SERVERS}
    given = read_values(ShareConsumerSettings, config, {**keywords, **added})
    return {
        each.name: given[each.field]
        for each in ShareConsumerSettings.settings.values()
        if each.field in given and each.field not in added
    }


def _common(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in CommonSettings.settings}


def _checked(policy: RetryPolicy) -> RetryPolicy:
    """The policy, unless it names what is decided by the group on the broker."""
    default = RetryPolicy()
    for name in ("dead_letters", "store", "keep_order_by_key", "topic", "return_topic"):
        if getattr(policy, name) != getattr(default, name):
            raise ClientConfigError(f"a worker's policy has delays, attempts and dead_letter_on; {name} has no effect")
    return policy
