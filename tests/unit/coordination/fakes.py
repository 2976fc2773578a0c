"""A shard that behaves: it keeps numbers by name, as a coordinator keeps groups; and a log that commits on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.coordination import Answer, CoordinatorRuntime, Decision, SetTimer
from tidelog.timing import ManualClock, Timer
from tidelog.wire.errors import ApiError, ErrorCode


class Numbers:
    """Its requests are to set a number, to read one, to wait for one."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.values: dict[bytes, bytes] = {}
        self.pending: dict[int, dict[bytes, bytes | None]] = {}
        self.waiting: list[Callable[[Any], None]] = []
        self.fired: list[object] = []
        self.then: list[ErrorCode] = []

    def replay(self, key: bytes, value: bytes | None, producer_id: int, producer_epoch: int) -> None:
        if producer_id >= 0:
            self.pending.setdefault(producer_id, {})[key] = value
        elif value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = value

    def replay_end_transaction(self, producer_id: int, producer_epoch: int, is_commit: bool) -> None:
        ended = self.pending.pop(producer_id, {})
        if is_commit:
            for key, value in ended.items():
                self.replay(key, value, -1, -1)

    def on_loaded(self, now_ms: int) -> Decision[Any]:
        return Decision(timers=(SetTimer("loaded", 100),))

    def on_timer(self, key: object, now_ms: int) -> Decision[Any]:
        self.fired.append((key, now_ms))
        waiting, self.waiting = self.waiting, []
        return Decision(answers=tuple(Answer(respond, key) for respond in waiting))

    def on_unloaded(self, error: ApiError) -> list[Answer]:
        return [Answer(respond, error) for respond in self.waiting]

    def set(self, key: bytes, value: bytes | None) -> Decision[str]:
        return Decision("set", ((key, value),))

    def set_and_note(self, key: bytes, value: bytes) -> Decision[str]:
        def then(code: ErrorCode, now_ms: int) -> Decision[Any]:
            self.then.append(code)
            return Decision()

        return Decision("set", ((key, value),), then=then)

    def get(self, key: bytes) -> Decision[bytes]:
        return Decision(self.values.get(key, b""))


class FakeLog:
    """Keeps batches; commits them when `commit` is called, or refuses with `refusal`."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.refusal: ErrorCode | None = None
        self.commits_at_once = False
        self._waiting: list[Callable[[ErrorCode, int], None]] = []

    def append(self, partition: int, batch: bytearray, on_committed: Callable[[ErrorCode, int], None]) -> int:
        if self.refusal is not None:
            raise ApiError(self.refusal)
        self.batches.append(bytes(batch))
        if self.commits_at_once:
            on_committed(ErrorCode.NONE, len(self.batches) - 1)
        else:
            self._waiting.append(on_committed)
        return len(self.batches) - 1

    def await_commit(self, _partition: int, on_committed: Callable[[ErrorCode, int], None]) -> None:
        if self.refusal is not None:
            raise ApiError(self.refusal)
        if self.commits_at_once:
            on_committed(ErrorCode.NONE, len(self.batches))
        else:
            self._waiting.append(on_committed)

    def commit(self, code: ErrorCode = ErrorCode.NONE) -> None:
        waiting, self._waiting = self._waiting, []
        for on_committed in waiting:
            on_committed(code, 0)


class World:
    """A runtime, its log and its clock."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timer = Timer(0)
        self.log = FakeLog()
        self.lost: list[int] = []
        self.replies: list[Any] = []
        self.runtime: CoordinatorRuntime[Numbers] = CoordinatorRuntime(
            Numbers, self.log.append, self.log.await_commit, self.clock, self.timer, on_lost=self.lost.append
        )

    def ask(self, operation: Callable[[Numbers], Decision[Any]], partition: int = 0) -> None:
        self.runtime.execute(partition, lambda shard, _now_ms: operation(shard), self.replies.append)

    def advance(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self.timer.advance(self.clock.monotonic_ms())

    @property
    def codes(self) -> list[ErrorCode]:
        return [reply.code for reply in self.replies if isinstance(reply, ApiError)]
