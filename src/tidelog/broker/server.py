"""A broker from start to stop: the parts are put together here, in Kafka's order, and taken apart in reverse.

    open log directories → metadata tree → identity → dynamic settings → bind listeners → load logs → open partitions →
    follow changes → join the cluster → accept clients

What a step means for a broker that is alone, and for a member of a cluster, is up to its topology.

Each step of a start says how it is undone; one that fails leaves nothing behind.

`Server` is what the testing kit runs inside a process of its own choosing; `run` is what `tidelog serve` calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from tidelog.broker.assembly import assemble
from tidelog.broker.configuration.settings import (
    load_dynamic_layers,
    warn_of_idle_settings,
)
from tidelog.broker.foundation import Foundation
from tidelog.broker.identity import establish_broker_id, establish_cluster_id, is_new_cluster
from tidelog.broker.runtime.deadlines import within
from tidelog.broker.runtime.garbage import GarbageCollection
from tidelog.broker.serving.node import Node
from tidelog.broker.surroundings import Surroundings
from tidelog.broker.topology.plans import plan_of
from tidelog.broker.topology.topology import Beginning
from tidelog.config import BrokerConfig, settings_without_effect
from tidelog.metadata.errors import StoreClientFailedError, StoreError
from tidelog.metadata.features import finalise_all
from tidelog.metadata.loading import load_image
from tidelog.metadata.migration import check_not_migrating
from tidelog.metadata.registration import prepare_tree
from tidelog.metadata.store import Store
from tidelog.metadata.store_queue import StoreQueue
from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.storage.directories.manager import LogManager
from tidelog.storage.directories.meta_properties import scan_meta_properties
from tidelog.storage.errors import LogDirFailure

if TYPE_CHECKING:
    from tidelog.broker.metrics import BrokerMetrics

logger = logging.getLogger(__name__)
failure_logger = logging.getLogger(f"{__name__}.failures")
failure_logger.addFilter(LogRateLimit())

_SWITCH_SECONDS: Final = 0.0005
"""How long the event loop waits for the interpreter while a background thread computes. It asks for it after every
system call, a few times a turn: with Python's default of 5 ms each request would take 20 ms longer meanwhile."""

_STOP_SECONDS: Final = 1.0
"""How long a shutdown waits for what it could do without: requests under way, jobs of the cleaner, early syncs."""
_METADATA_SECONDS: Final = 2.0
"""How long a shutdown waits for metadata that cannot be reached, in each call."""
_CONTROLLER_TIMEOUT_MS: Final = 10_000
"""How long a broker of a cluster waits for the controller before it calls itself ready."""
_AUTHENTICATION_CHECK_MS: Final = 5000
_IDLE_CHECKS: Final = 10
"""How often within `connections.max.idle.ms` connections are looked at."""


class Server:
    """One broker. `start` returns when clients are served; `stop` when everything is on disk."""

    def __init__(
        self,
        config: BrokerConfig,
        surroundings: Surroundings | None = None,
        reach: Callable[[str], None] | None = None,
    ) -> None:
        """`reach` is called with the names of places that the testing kit can make a broker crash at."""
        self._static = config
        self._reach = reach or _reach_nothing
        self._surroundings = surroundings or Surroundings.of_this_machine(config)
        self._clock = self._surroundings.clock
        self._node: Node | None = None
        self._log_manager: LogManager | None = None
        self._in_sync_at_start: list[tuple[str, int]] = []
        self._failed: asyncio.Future[LogDirFailure | StoreClientFailedError] | None = None
        self.address = ("", 0)
        self.metrics: BrokerMetrics | None = None
        """None without `metrics.listeners`."""

    @property
    def node(self) -> Node:
        """The parts, for tests."""
        assert self._node is not None, "the server was started"
        return self._node

    async def start(self) -> None:
        """Start everything; on failure nothing stays behind and the error says what to change."""
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        async with AsyncExitStack() as undo:
            base = self._start_base(loop, undo)
            self._log_manager = base.log_manager
            undo.callback(base.log_manager.unlock)
            directories = base.log_manager.open_directories()
            beginning = await self._begin(base, directories)
            metadata = StoreQueue(loop, beginning.store)
            undo.push_async_callback(metadata.close)
            undo.push_async_callback(beginning.plan.close)
            node = self._node = self._build_node(base, metadata, beginning)
            undo.callback(node.socket_server.close)
            self._bind()
            await self._start_metrics(node, undo)
            undo.push_async_callback(node.topology.close)
            self._open(beginning.store)
            await self._follow_tree()
            self._start_tasks()
            await node.topology.join()
            self._accept(beginning.store)
            undo.pop_all()

    async def _start_metrics(self, node: Node, undo: AsyncExitStack) -> None:
        """Count, and serve pages of metrics, if `metrics.listeners` is set."""
        if node.config.metrics_listeners:
            from tidelog.broker.metrics import BrokerMetrics

            assert node.request_log.meter is not None, "requests are timed where there are metrics"
            self.metrics = BrokerMetrics(node, node.request_log.meter)
            undo.push_async_callback(self.metrics.close)
            await self.metrics.start()

    def _start_base(self, loop: asyncio.AbstractEventLoop, undo: AsyncExitStack) -> Foundation:
        """Time, threads and the log manager, which need no metadata."""
        base = Foundation(loop, self._static, self._surroundings, self._on_log_dir_failure, _log_failure)
        undo.callback(base.background.close)
        undo.callback(base.timer_driver.stop)
        return base

    async def _begin(self, base: Foundation, directories: list[str]) -> Beginning:
        """Find the metadata, and determine this broker's ids by it."""
        if self._static.process_roles:
            from tidelog.broker.topology.quorum_start import begin

            return await begin(self._static, base, directories, self._on_metadata_failure)
        return self._begin_with_tree(self._surroundings.open_store(self._static, directories), directories)

    def _begin_with_tree(self, store: Store, directories: list[str]) -> Beginning:
        try:
            check_not_migrating(store)
            prepare_tree(store)
            scan = scan_meta_properties(directories)
            if self._static.zookeeper_connect is None and is_new_cluster(store, scan):
                # A ZooKeeper may have brokers of Apache Kafka, which stop where a level is finalised.
                finalise_all(store)
            cluster_id = establish_cluster_id(store, scan)
            plan = plan_of(self._surroundings)
            loaded = load_image(store, cluster_id)
            image = plan.new_image(loaded)
            broker_id = establish_broker_id(store, scan, self._static, cluster_id, image)
        except BaseException:
            store.close()
            raise
        return Beginning(broker_id, store, loaded, image, plan, scan.failed)

    def _build_node(self, base: Foundation, metadata: StoreQueue, beginning: Beginning) -> Node:
        """Determine the settings, then build the parts. Directories that do not say whose they are go offline."""
        broker_id, store = beginning.broker_id, beginning.store
        for directory, why in beginning.failed_directories.items():
            base.log_manager.handle_log_dir_failure(directory, why)
        if self._static.password_encoder_secret is not None:
            from tidelog.broker.configuration.dynamic_passwords import rotate_passwords

            rotate_passwords(store, broker_id, self._static)
        layers = load_dynamic_layers(store, broker_id, self._static.originals)
        warn_of_idle_settings(settings_without_effect(layers.config.originals))
        node = assemble(
            broker_id,
            layers,
            beginning.plan,
            beginning.loaded,
            beginning.image,
            metadata,
            base,
            self._on_directory_gone,
            self._end_turn,
            self._reach,
        )
        node.listener_security.credentials.load(store)
        return node

    def _open(self, store: Store) -> None:
        """Load the logs, and open what is known to be here."""
        is_unclean = self.node.hosted_topics.load()
        self.node.topology.open(store, is_unclean=is_unclean)

    async def _follow_tree(self) -> None:
        """Watch changes of settings, of what clients may do, and of tokens."""
        node, metadata = self.node, self.node.metadata
        await metadata.run(node.dynamic_config.start)
        await metadata.run(node.client_quotas.start)
        await metadata.run(node.features.start)
        await metadata.run(node.entity_settings.start)
        if node.client_metrics is not None:
            node.client_metrics.start()
        if node.access is not None:
            await metadata.run(node.access.start)
        if node.tokens is not None:
            await metadata.run(node.tokens.start)
            node.tokens.schedule_checks()

    def _accept(self, store: Store) -> None:
        """Serve clients."""
        node = self.node
        node.socket_server.start_accepting()
        node.timer_driver.rearm()
        host, port = self.address
        node.topology.serve(store, f"{host}:{port}")

    def _bind(self) -> None:
        """Bind the ports early, so that a port in use is reported before minutes of recovery; accept no client yet."""
        node = self.node
        for position, listener in enumerate(node.config.parsed_listeners):
            try:
                endpoint = node.socket_server.bind(
                    listener.name,
                    listener.host,
                    listener.port,
                    listener.security_protocol,
                    node.listener_security.tls_of(listener),
                )
            except OSError as cause:
                where = f"{listener.host or '0.0.0.0'}:{listener.port}"  # noqa: S104 - only said, not bound
                text = f"cannot listen on {where}: {cause.strerror or cause}; change listeners"
                raise OSError(cause.errno, text) from cause
            shared = self._surroundings.shared_listeners.get(listener.name)
            if shared is not None:
                tls = node.listener_security.tls_of(listener)
                node.socket_server.share(listener.name, shared, listener.security_protocol, tls)
            if not position:
                self.address = (listener.host or "127.0.0.1", endpoint.port)

    def _start_tasks(self) -> None:
        node = self.node
        node.log_manager.start_tasks()
        node.cleaning.update_config(node.config)
        node.cleaning.start()
        node.delayed.start()
        period_ms = node.config.zookeeper_session_timeout_ms
        node.scheduler.schedule("metadata-client", self._look_after_metadata, period_ms, period_ms)
        idle_ms = node.config.connections_max_idle_ms
        if idle_ms > 0:
            period_ms = max(idle_ms // _IDLE_CHECKS, 10)
            node.scheduler.schedule("idle-connections", self._close_idle, period_ms, period_ms)

        if node.authentication is not None:
            node.scheduler.schedule(
                "authentication",
                node.authentication.keep_up,
                _AUTHENTICATION_CHECK_MS,
                _AUTHENTICATION_CHECK_MS,
            )

    def _close_idle(self) -> None:
        self.node.socket_server.close_idle(self._clock.wall_ms())

    def _end_turn(self) -> None:
        node = self.node
        node.replica_manager.end_turn()
        if node.client_quotas.is_timing:
            node.client_quotas.end_turn()
        node.timer_driver.rearm()

    # --- failure ---

    def _on_log_dir_failure(self, failure: LogDirFailure) -> None:
        """A log directory failed: take it offline, partitions first, then the log manager."""
        self.node.replica_manager.fail_log_dir(failure)
        self.node.socket_server.wake()

    def _on_directory_gone(self, failure: LogDirFailure) -> None:
        gone = self.node.log_manager.handle_log_dir_failure(failure.directory, failure.cause)
        self.node.cleaning.abort_in(failure.directory)
        self.node.topology.report_offline(gone.partitions)
        if gone.is_last:
            self._fail("every log directory has failed: the broker stops", failure)

    def _look_after_metadata(self) -> None:
        try:
            self.node.metadata.look_after()
        except StoreClientFailedError as error:
            self._fail(f"{error}: the broker stops, so that it can be started again", error)

    def _on_metadata_failure(self, error: Exception) -> None:
        failure = StoreClientFailedError(f"the metadata cannot be followed any more: {error}")
        self._fail(f"{failure}: the broker stops, so that it can be started again", failure)

    def _fail(self, text: str, failure: LogDirFailure | StoreClientFailedError) -> None:
        if self._failed is not None and not self._failed.done():
            logger.critical("%s", text)
            self._failed.set_result(failure)

    async def wait_for_failure(self) -> LogDirFailure | StoreClientFailedError:
        """Returns when the broker cannot go on: no log directory is left, or no client of the metadata works."""
        assert self._failed is not None, "the server was started"
        return await self._failed

    # --- end ---

    def abandon(self) -> None:
        """Close the files and release the locks and do nothing else, as the system does for a process that is killed.

        For a simulator, which kills brokers and lives on.
        """
        if self._log_manager is not None:
            for log in self._log_manager.all_logs():
                log.release()
            self._log_manager.unlock()

    async def leave(self) -> None:
        """After a failure that ends the broker: end the session, so that other brokers lead at once."""
        await self.node.topology.leave(_STOP_SECONDS)

    async def stop(self) -> None:
        """Controlled shutdown: answer what is under way, sync everything, leave the clean-shutdown marker."""
        node = self.node
        node.metadata.limit_waits(_METADATA_SECONDS)
        await node.topology.hand_over()
        node.socket_server.stop_accepting()
        if self.metrics is not None:
            await self.metrics.close()
        node.groups.stop()
        node.transactions.stop()
        await node.shares.close()
        await node.topology.close()
        await node.log_dir_moves.close()
        await within(_STOP_SECONDS, "requests under way", node.slices.drain())
        node.replica_manager.end_turn()
        await within(_STOP_SECONDS, "checkpoints of delayed records", node.delayed.close())
        node.socket_server.close()
        if node.authentication is not None:
            node.authentication.close()
        node.scheduler.cancel_all()
        node.timer_driver.stop()
        await within(_STOP_SECONDS, "the log cleaner", node.cleaning.stop())
        await within(_STOP_SECONDS, "syncs under way", node.flusher.drain())
        await node.background.run(partial(node.log_manager.close, node.topology.final_epoch))
        try:
            await node.metadata.close()
        except StoreError as error:
            # Everything in it is durable already; only tidying up may fail on a full disk.
            logger.error("the metadata could not be closed in order: %s", error)
        node.background.close()
        logger.info("broker %d has stopped", node.broker_id)


def _log_failure(failed: object, error: Exception) -> None:
    failure_logger.error("%r failed", failed, exc_info=error)


def _reach_nothing(_place: str) -> None:
    """A place is passed without a crash."""


def run(
    config: BrokerConfig,
    on_ready: Callable[[str], None],
    reach: Callable[[str], None] | None = None,
    surroundings: Surroundings | None = None,
    lifeline: int | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; returns the process's exit code. `reach` is for the testing kit.

    `lifeline` is the reading end of a pipe: the broker also stops when that is closed at its other end.
    """
    import sys

    sys.setswitchinterval(_SWITCH_SECONDS)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(Server(config, surroundings, reach=reach), on_ready, lifeline))


async def _serve(server: Server, on_ready: Callable[[str], None], lifeline: int | None) -> int:
    import signal

    loop = asyncio.get_running_loop()
    stop_asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_asked.set)
    if lifeline is not None:

        def on_supervisor_gone() -> None:
            loop.remove_reader(lifeline)
            stop_asked.set()

        loop.add_reader(lifeline, on_supervisor_gone)
    _raise_descriptor_limit()
    await server.start()
    collection = GarbageCollection(loop, lambda: server.node.slices.unfinished > 0)
    collection.start()
    server.node.socket_server.start_polling()
    asked = asyncio.ensure_future(stop_asked.wait())
    await _wait_for_controller(server, asked)
    host, port = server.address
    on_ready(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    failure = asyncio.ensure_future(server.wait_for_failure())
    await asyncio.wait((failure, asked), return_when=asyncio.FIRST_COMPLETED)
    asked.cancel()
    if failure.done():
        await server.leave()
        return 1
    failure.cancel()
    await server.stop()
    return 0


async def _wait_for_controller(server: Server, asked: asyncio.Future[Literal[True]]) -> None:
    """A broker of a cluster is ready when the controller has informed it, unless that takes long."""
    known = asyncio.ensure_future(server.node.topology.wait_until_known(_CONTROLLER_TIMEOUT_MS))
    await asyncio.wait((known, asked), return_when=asyncio.FIRST_COMPLETED)
    if known.done() and not known.result():
        logger.warning(
            "no controller has informed broker %d within %d ms", server.node.broker_id, _CONTROLLER_TIMEOUT_MS
        )
    known.cancel()


def _raise_descriptor_limit() -> None:
    """Ten thousand partitions need as many descriptors; the soft limit is often 1,024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it installs."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
