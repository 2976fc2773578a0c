"""The metadata tree in a ZooKeeper ensemble, by way of kazoo: what brokers on several machines share.

Calls go to ZooKeeper as requests that can be sent again. While the connection is down a call waits for it, up to the
session timeout; when the connection was lost under a call, the request is repeated. When the session expires, calls
under way raise `SessionExpiredError`, and kazoo opens a new session.

Independent reads and writes are sent in batches, several of them in flight: a request costs kazoo and ZooKeeper a tenth
of a millisecond together, whether it is about one node or a hundred. Watchers and session listeners are called on a
thread of their own, so that none of kazoo's threads ever waits.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol import serialization as wire
from kazoo.protocol.states import Callback, EventType, KazooState, KeeperState, WatchedEvent, ZnodeStat
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from tidelog.metadata._kazoo import MultiRead, WatchKeepingClient
from tidelog.metadata.client_watch import ClientWatch, Verdict
from tidelog.metadata.errors import (
    BadPathError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RequestTooLargeError,
    SessionExpiredError,
    StoreClientFailedError,
    StoreError,
    StoreUnavailableError,
)
from tidelog.metadata.event_thread import EventThread
from tidelog.metadata.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    EventKind,
    NodeData,
    Operation,
    Outcome,
    Result,
    SessionListener,
    SessionState,
    Set,
    Stat,
    Watcher,
    WatchEvent,
    split_path,
)
from tidelog.metadata.submission import OPERATIONS_MAX, fenced_error
from tidelog.metadata.watches import call_watcher
from tidelog.metadata.zookeeper_options import ZooKeeperOptions

_BATCH_BYTES_MAX: Final = 256 * 1024
_HEADER_BYTES: Final = 64
_SENSITIVE: Final = ("/config/users", "/config/brokers", "/delegation_token")
"""What only the brokers may read where `zookeeper.set.acl` is set, as in Kafka."""

_EVENTS: Final = {
    EventType.CREATED: EventKind.CREATED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHILD: EventKind.CHILDREN,
}
_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}

_logger = logging.getLogger(__name__)


class ZooKeeperStore:
    """A session with the ensemble at `connect`: `host:port,host:port/chroot`, as in `zookeeper.connect`.

    The chroot is made if it is missing. See `Store` for the methods; unlike others, this one may be called by several
    threads at once.
    """

    def __init__(self, connect: str, options: ZooKeeperOptions | None = None) -> None:
        options = options or ZooKeeperOptions()
        hosts, slash, chroot = connect.partition("/")
        self._connect_string = connect
        self._hosts = hosts
        self._options = options
        self._chroot = (slash + chroot).rstrip("/")
        split_path(self._chroot or "/")
        self._timeout_s = options.session_timeout_ms / 1000
        self._events = EventThread("tidelog-zookeeper-events")
        self._listeners: list[SessionListener] = []
        self._changed = threading.Condition()
        self._state = SessionState.SUSPENDED
        self._expired_sessions = 0
        self._session_id = 0
        self._is_closed = False
        self._is_refused = False
        self._is_abandoned = False
        self._has_multi_read = True
        self._last_event: WatchedEvent | None = None
        self._notified: set[Watcher] = set()
        self._client_watch = ClientWatch()
        self._client = self._new_client()
        self._connect()

    @property
    def session_id(self) -> int:
        return self._session_id

    def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        operation = Create(path, data, ephemeral, sequential)
        created: str = self._call(self._request(operation), operation)
        return self._inside(created)

    def get(self, path: str, watch: Watcher | None = None) -> NodeData:
        return _node(self._call(wire.GetData(self._outside(path), self._watch(watch)), Check(path)))

    def get_many(self, paths: Sequence[str], watch: Watcher | None = None) -> list[NodeData | None]:
        # Reads of many nodes in one request cannot watch.
        kazoo_watch = self._watch(watch)
        reads = [wire.GetData(self._outside(path), kazoo_watch) for path in paths]
        found = self._read_many(reads, paths) if kazoo_watch is None else self._call_all(reads)
        return [None if node is None else _node(node) for node in _none_if_missing(found, paths)]

    def set(self, path: str, data: bytes, expected_version: int = ANY_VERSION) -> Stat:
        operation = Set(path, data, expected_version)
        return _stat(self._call(self._request(operation), operation))

    def delete(self, path: str, expected_version: int = ANY_VERSION) -> None:
        operation = Delete(path, expected_version)
        self._call(self._request(operation), operation)

    def exists(self, path: str, watch: Watcher | None = None) -> Stat | None:
        kazoo_watch = self._watch(watch)
        stat = self._call(wire.Exists(self._outside(path), kazoo_watch), Check(path))
        if kazoo_watch is not None:
            kazoo_watch.is_for_creation = stat is None
        return None if stat is None else _stat(stat)

    def children(self, path: str, watch: Watcher | None = None) -> list[str]:
        names: list[str] = self._call(wire.GetChildren(self._outside(path), self._watch(watch)), Check(path))
        return sorted(names)

    def children_many(self, paths: Sequence[str]) -> list[list[str] | None]:
        reads = [wire.GetChildren(self._outside(path), None) for path in paths]
        found = _none_if_missing(self._read_many(reads, paths), paths)
        return [None if names is None else sorted(names) for names in found]

    def multi(self, operations: Sequence[Operation]) -> list[Result]:
        if not operations:
            self._check_open()
            return []
        (found,) = self._transact([operations])
        if isinstance(found, _Refused):
            raise found.error
        return found

    def submit_all(self, operations: Sequence[Operation], fence: Check | None = None) -> list[Outcome]:
        self._check_open()
        outcomes: list[Outcome] = [self._refusal(operation) for operation in operations]
        batches = _batches(operations, [index for index, refusal in enumerate(outcomes) if refusal is None])
        fences = [] if fence is None else [fence]
        while batches:
            found = self._transact([[*fences, *(operations[index] for index in batch)] for batch in batches])
            batches = [
                rest
                for batch, each in zip(batches, found, strict=True)
                for rest in _settle(batch, each, fence, outcomes)
            ]
        return outcomes

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    def limit_waits(self, seconds: float) -> None:
        with self._changed:
            self._timeout_s = min(self._timeout_s, seconds)
            self._changed.notify_all()

    def look_after(self) -> None:
        client = self._client
        if self._is_closed:
            return
        if self._is_refused:
            # kazoo has ended its thread. The ensemble may take our credentials later.
            self._renew()
            return
        is_connected = self._state is SessionState.CONNECTED
        verdict = self._client_watch.judge(is_alive=client.is_alive, signs=client.signs, is_connected=is_connected)
        if verdict is Verdict.KEEP:
            return
        problem = "is stuck" if client.is_alive else "has ended"
        text = f"the client of ZooKeeper at {self._connect_string}, session {self._session_id:#x}, {problem}"
        if verdict is Verdict.GIVE_UP:
            self._is_abandoned = True
            raise StoreClientFailedError(f"{text}, although it was renewed")
        _logger.error("%s: a new one takes its place, with a new session", text)
        try:
            self._renew()
        except (OSError, RuntimeError) as error:
            # No thread or no descriptor is to be had.
            self._is_abandoned = True
            raise StoreClientFailedError(f"{text} and cannot be renewed: {error}") from error

    def close(self) -> None:
        with self._changed:
            if self._is_closed:
                return
            self._is_closed = True
            self._changed.notify_all()
        self._events.stop()
        if self._is_abandoned or not self._client.is_alive:
            self._client.abandon()
            return
        self._client.stop()
        self._client.close()

    def wait_until_notified(self, timeout_s: float) -> None:
        """Return when watchers and listeners were called for everything that happened before; for tests."""
        deadline = time.monotonic() + timeout_s
        last_event: object = self
        while last_event is not self._last_event:
            last_event = self._last_event
            self.exists("/")
            dispatched = threading.Event()
            self._client.handler.dispatch_callback(Callback("flush", dispatched.set, ()))
            if not dispatched.wait(deadline - time.monotonic()) or not self._events.wait_until_idle(
                deadline - time.monotonic()
            ):
                raise TimeoutError(f"watchers were not called within {timeout_s} s")

    # Connecting

    def _new_client(self) -> WatchKeepingClient:
        client = WatchKeepingClient(self._hosts, self._options, _logger)
        client.add_listener(partial(self._on_state, client))
        return client

    def _renew(self) -> None:
        """Begin a session with a new client. The old one's is over, as if it had expired."""
        fresh = self._new_client()
        with self._changed:
            old, self._client = self._client, fresh
            self._is_refused = False
            is_reported = self._state is SessionState.EXPIRED
            if not is_reported:
                self._state = SessionState.EXPIRED
                self._expired_sessions += 1
            self._changed.notify_all()
        if not is_reported:
            for listener in tuple(self._listeners):
                self._events.post(partial(listener, SessionState.EXPIRED))
        old.abandon()
        fresh.start_async()

    def _connect(self) -> None:
        timeout_ms = self._options.connection_timeout_ms or self._options.session_timeout_ms
        try:
            self._client.start(timeout=timeout_ms / 1000)
            self._wait_until_connected(0, time.monotonic())
            self._make_chroot()
        except KazooTimeoutError:
            self._is_closed = True
            raise StoreUnavailableError(
                f"ZooKeeper at {self._connect_string} cannot be reached within {timeout_ms} ms: check "
                "zookeeper.connect, or raise zookeeper.connection.timeout.ms"
            ) from None
        except BaseException:
            self.close()
            raise

    def _make_chroot(self) -> None:
        """Make the chroot and what is above it, as a Kafka broker does."""
        names = self._chroot.split("/")[1:]
        for depth in range(1, len(names) + 1):
            path = "/" + "/".join(names[:depth])
            if self._call(wire.Exists(path, None), Check(path)) is None:
                try:
                    self._call(wire.Create(path, b"", self._acl(path), 0), Create(path))
                except NodeExistsError:
                    continue  # another broker is starting too

    def _on_state(self, client: WatchKeepingClient, state: str) -> None:
        """Called on kazoo's connection thread."""
        with self._changed:
            if self._is_closed or client is not self._client:
                return
            self._state = _STATES[state]
            if state == KazooState.LOST:
                self._expired_sessions += 1
                self._is_refused = client.client_state == KeeperState.AUTH_FAILED
            if state == KazooState.CONNECTED:
                self._session_id = client.client_id[0]
            self._changed.notify_all()
        # By way of kazoo's queue, so that events of a session come before the report that it is over.
        for listener in tuple(self._listeners):
            report = partial(listener, _STATES[state])
            client.handler.dispatch_callback(Callback("session", self._events.post, (report,)))

    def _check_open(self) -> None:
        if self._is_closed:
            raise SessionExpiredError("the session with ZooKeeper is closed")

    def _wait_until_connected(self, expired_sessions: int, began: float) -> None:
        """Wait for the connection; raise if more sessions have expired than had when the call began."""
        with self._changed:
            while True:
                self._check_open()
                if self._is_refused:
                    raise StoreUnavailableError(f"ZooKeeper at {self._connect_string} refused our credentials")
                if expired_sessions != self._expired_sessions:
                    raise SessionExpiredError("the session with ZooKeeper expired")
                if self._state is SessionState.CONNECTED:
                    return
                remaining_s = began + self._timeout_s - time.monotonic()
                if remaining_s <= 0:
                    raise self._unreachable()
                self._changed.wait(remaining_s)

    def _unreachable(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"ZooKeeper at {self._connect_string} has not replied within {self._timeout_s * 1000:.0f} ms"
        )

    # Requests

    def _call(self, request: Any, operation: Operation) -> Any:
        """Send a request until it is answered; the reply, or the error that names the operation's node."""
        (reply,) = self._call_all([request])
        if isinstance(reply, Exception):
            raise _translate(reply, operation) from reply
        return reply

    def _call_all(self, requests: Sequence[Any]) -> list[Any]:
        """Send requests, several in flight; for each its reply or kazoo's exception, in order.

        What was under way when the connection was lost is sent again when it is back.
        """
        began = time.monotonic()
        replies: list[Any] = [None] * len(requests)
        waiting = list(range(len(requests)))
        expired_sessions = self._expired_sessions
        while waiting:
            self._wait_until_connected(expired_sessions, began)
            lost: list[int] = []
            in_flight: deque[tuple[int, Any]] = deque()
            for index in waiting:
                in_flight.append((index, self._client.submit(requests[index])))
                if len(in_flight) >= self._options.max_in_flight_requests:
                    self._receive(in_flight.popleft(), replies, lost)
            while in_flight:
                self._receive(in_flight.popleft(), replies, lost)
            waiting = lost
            if lost:
                # kazoo reports the loss to callers a moment before it reports it to listeners.
                self._wait_until_noticed()
        return replies

    def _wait_until_noticed(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._state is not SessionState.CONNECTED, 0.05)

    def _receive(self, sent: tuple[int, Any], replies: list[Any], lost: list[int]) -> None:
        index, result = sent
        try:
            replies[index] = result.get(timeout=self._timeout_s)
        except KazooTimeoutError:
            raise self._unreachable() from None
        except exceptions.ConnectionLoss:
            lost.append(index)
        except exceptions.SessionExpiredError as error:
            raise SessionExpiredError("the session with ZooKeeper expired") from error
        except exceptions.ConnectionClosedError:
            self._check_open()
            lost.append(index)
        except exceptions.KazooException as error:
            replies[index] = error

    def _read_many(self, reads: Sequence[Any], paths: Sequence[str]) -> list[Any]:
        """Replies or exceptions of reads without watches, in as few requests as possible."""
        if not self._has_multi_read or len(reads) < 2:
            return self._call_all(reads)
        starts = range(0, len(reads), OPERATIONS_MAX)
        found: list[Any] = []
        for start, reply in zip(
            starts,
            self._call_all([MultiRead(reads[start : start + OPERATIONS_MAX]) for start in starts]),
            strict=True,
        ):
            if isinstance(reply, exceptions.UnimplementedError):
                # A server older than 3.6.
                self._has_multi_read = False
                return self._call_all(reads)
            if isinstance(reply, Exception):
                raise _translate(reply, Check(paths[start])) from reply
            found += reply
        return found

    def _transact(self, transactions: Sequence[Sequence[Operation]]) -> list["list[Result] | _Refused"]:
        """Carry out transactions, several in flight; the results of each, or why it was refused."""
        requests = [self._transaction(operations) for operations in transactions]
        return [
            self._results(operations, reply)
            for operations, reply in zip(transactions, self._call_all(requests), strict=True)
        ]

    def _transaction(self, operations: Sequence[Operation]) -> "_Encoded":
        for operation in operations:
            refusal = self._refusal(operation)
            if refusal is not None:
                raise refusal
        request = _Encoded.of(wire.Transaction([self._request(operation) for operation in operations]))
        if len(request.payload) + _HEADER_BYTES > self._options.request_bytes_max:
            raise RequestTooLargeError(
                f"a transaction of {len(operations)} operations from {operations[0].path} to {operations[-1].path} has "
                f"{len(request.payload)} bytes; ZooKeeper takes {self._options.request_bytes_max} (its jute.maxbuffer)"
            )
        return request

    def _results(self, operations: Sequence[Operation], reply: Any) -> "list[Result] | _Refused":
        if isinstance(reply, Exception):
            raise _translate(reply, operations[0]) from reply
        for position, (operation, result) in enumerate(zip(operations, reply, strict=True)):
            # Before the one that failed ZooKeeper reports "rolled back", after it "inconsistent".
            if isinstance(result, Exception) and not isinstance(
                result, exceptions.RolledBackError | exceptions.RuntimeInconsistency
            ):
                return _Refused(position, _translate(result, operation))
        return [self._result(operation, result) for operation, result in zip(operations, reply, strict=True)]

    def _result(self, operation: Operation, result: Any) -> Result:
        if isinstance(operation, Create):
            return self._inside(result)
        return _stat(result) if isinstance(operation, Set) else None

    def _refusal(self, operation: Operation) -> NodeError | None:
        """Why an operation cannot be sent, if so."""
        try:
            parent, _ = split_path(operation.path, sequential=isinstance(operation, Create) and operation.sequential)
        except BadPathError as error:
            return error
        if parent == "" and isinstance(operation, Create):
            return NodeExistsError("/")
        if parent == "" and isinstance(operation, Delete):
            return BadPathError("/", "the root cannot be deleted")
        return None

    def _request(self, operation: Operation) -> Any:
        refusal = self._refusal(operation)
        if refusal is not None:
            raise refusal
        path = self._chroot + operation.path if operation.path != "/" else self._chroot or "/"
        if isinstance(operation, Create):
            flags = operation.ephemeral | operation.sequential << 1
            return wire.Create(path, operation.data, self._acl(operation.path), flags)
        if isinstance(operation, Set):
            return wire.SetData(path, operation.data, operation.expected_version)
        if isinstance(operation, Delete):
            return wire.Delete(path, operation.expected_version)
        return wire.CheckVersion(path, operation.expected_version)

    def _acl(self, path: str) -> list[ACL]:
        if not self._options.set_acl or path == "/consumers":
            return OPEN_ACL_UNSAFE  # type: ignore[no-any-return]
        return CREATOR_ALL_ACL if path.startswith(_SENSITIVE) else CREATOR_ALL_ACL + READ_ACL_UNSAFE  # type: ignore[no-any-return]

    def _outside(self, path: str) -> str:
        """The path in the ensemble of a path in the chroot."""
        split_path(path)
        return self._chroot + path if path != "/" else self._chroot or "/"

    def _inside(self, path: str) -> str:
        return path[len(self._chroot) :] or "/"

    # Watches

    def _watch(self, watcher: Watcher | None) -> "_Watch | None":
        return None if watcher is None else _Watch(watcher, self._on_event)

    def _on_event(self, watcher: Watcher, event: WatchedEvent) -> None:
        """Called on kazoo's thread for callbacks: once for each watch that an event triggers, one after the other."""
        if event.type == EventType.NONE or self._is_closed:
            return
        if event is not self._last_event:
            self._last_event, self._notified = event, set()
        if watcher in self._notified:
            return  # it watched both the node's data and its children
        self._notified.add(watcher)
        found = WatchEvent(_EVENTS[event.type], self._inside(event.path))
        self._events.post(lambda: call_watcher(watcher, found))


class _Watch:
    """A watcher registered with kazoo. Setting the same one on a node twice registers it once."""

    __slots__ = ("_on_event", "_watcher", "is_for_creation")

    def __init__(self, watcher: Watcher, on_event: Callable[[Watcher, WatchedEvent], None]) -> None:
        self._watcher = watcher
        self._on_event = on_event
        self.is_for_creation = False

    def __call__(self, event: WatchedEvent) -> None:
        self._on_event(self._watcher, event)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watch) and self._watcher == other._watcher

    def __hash__(self) -> int:
        return hash(self._watcher)


class _Refused(NamedTuple):
    """A transaction that changed nothing, because of one of its operations."""

    position: int
    error: StoreError


@dataclass(frozen=True, slots=True)
class _Encoded:
    """A request of kazoo's that is encoded already: its size is known before it is sent, however often that is."""

    type: int
    payload: bytes
    deserialize: Callable[[bytes, int], Any]

    @classmethod
    def of(cls, request: Any) -> "_Encoded":
        return cls(request.type, bytes(request.serialize()), request.deserialize)

    def serialize(self) -> bytes:
        return self.payload


def _batches(operations: Sequence[Operation], indexes: Sequence[int]) -> list[Sequence[int]]:
    """The indexes, in batches that are small enough for one transaction each."""
    batches: list[Sequence[int]] = []
    batch: list[int] = []
    size = _BATCH_BYTES_MAX
    for index in indexes:
        operation = operations[index]
        data = operation.data if isinstance(operation, Create | Set) else b""
        added = len(operation.path) + len(data) + 2 * _HEADER_BYTES
        if size + added > _BATCH_BYTES_MAX or len(batch) >= OPERATIONS_MAX:
            batch = []
            batches.append(batch)
            size = 0
        batch.append(index)
        size += added
    return batches


def _settle(
    batch: Sequence[int], found: list[Result] | _Refused, fence: Check | None, outcomes: list[Outcome]
) -> list[Sequence[int]]:
    """Note the outcomes of a batch. Return what is to be submitted again, because another of the batch was refused.

    The operations before the refused one go together; those after it in halves, so that few refusals cost few requests,
    and many cost no more than two for each operation.
    """
    offset = 0 if fence is None else 1
    if not isinstance(found, _Refused):
        for index, result in zip(batch, found[offset:], strict=True):
            outcomes[index] = result
        return []
    if fence is not None and found.position == 0:
        raise fenced_error(fence, found.error) or found.error
    position = found.position - offset
    outcomes[batch[position]] = found.error
    after = batch[position + 1 :]
    middle = (len(after) + 1) // 2
    return [each for each in (batch[:position], after[:middle], after[middle:]) if each]


def _none_if_missing(found: Sequence[Any], paths: Sequence[str]) -> list[Any]:
    for path, reply in zip(paths, found, strict=True):
        if isinstance(reply, Exception) and not isinstance(reply, exceptions.NoNodeError):
            raise _translate(reply, Check(path)) from reply
    return [None if isinstance(reply, Exception) else reply for reply in found]


def _node(reply: tuple[bytes | None, ZnodeStat]) -> NodeData:
    data, stat = reply
    return data or b"", _stat(stat)


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(
        stat.czxid,
        stat.mzxid,
        stat.pzxid,
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.cversion,
        stat.ephemeralOwner,
        stat.dataLength,
        stat.numChildren,
    )


def _translate(error: Exception, operation: Operation) -> StoreError:
    """kazoo's exception as ours. An operation that found no parent is reported with the parent's path."""
    path = operation.path
    parent = path.rpartition("/")[0] or "/"
    expected = ANY_VERSION if isinstance(operation, Create) else operation.expected_version
    translations: tuple[tuple[type[Exception], StoreError], ...] = (
        (exceptions.NodeExistsError, NodeExistsError(path)),
        (exceptions.NoNodeError, NoNodeError(parent if isinstance(operation, Create) else path)),
        (exceptions.BadVersionError, BadVersionError(path, expected)),
        (exceptions.NotEmptyError, NotEmptyError(path)),
        (exceptions.NoChildrenForEphemeralsError, NoChildrenForEphemeralsError(parent)),
        (exceptions.BadArgumentsError, BadPathError(path, "ZooKeeper does not take it as a path")),
        (exceptions.SessionExpiredError, SessionExpiredError("the session with ZooKeeper expired")),
        (exceptions.NoAuthError, StoreUnavailableError(f"{path}: ZooKeeper's ACL does not permit it for this broker")),
    )
    for kind, translated in translations:
        if isinstance(error, kind):
            return translated
    return StoreUnavailableError(f"{path}: ZooKeeper refused the request: {type(error).__name__} {error}".rstrip())
