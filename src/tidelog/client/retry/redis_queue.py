"""Records that wait in Redis: a sorted set by due time, from which many workers claim what is due.

    <prefix>:due        sorted set   id → due time in ms, by the clock of Redis
    <prefix>:claimed    sorted set   id → when the claim of a worker ends
    <prefix>:records    hash         id → the record as JSON
    <prefix>:unreadable hash         id → what was there instead of a record
    <prefix>:positions  hash         partition of a retry topic → the offset up to which its records are here

A claim moves ids from the first set to the second in one script, so that no two workers have the same one. A worker
writes the record to its topic and then removes it. The claims of a worker that was killed end after the lease, and the
next claim takes them again: each record is written at least once, and again if a worker ends between the two steps.

`put_records` under an id that is there changes nothing. `take_over` stores records of a retry topic together with the
position after them, in one script, and skips those below the position: each is stored once, however often it is read.
Needs `tidelog[redis]`.
"""

import base64
import json
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

from tidelog.client.errors import ClientConfigError, ClientError
from tidelog.client.retry.headers import Header
from tidelog.client.retry.policy import Forward

PREFIX: Final = "tidelog:retry"
LEASE_S: Final = 30.0

_NOW: Final = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) "
_PUT: Final = (
    _NOW
    + """
for i = 1, #ARGV, 3 do
  if redis.call('HSETNX', KEYS[3], ARGV[i], ARGV[i + 2]) == 1 then
    redis.call('ZADD', KEYS[1], now + ARGV[i + 1], ARGV[i])
  end
end
return 0"""
)
_CLAIM: Final = (
    _NOW
    + """
local lost = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1] - #lost)
for _, id in ipairs(lost) do table.insert(ids, id) end
local found = {}
for _, id in ipairs(ids) do
  redis.call('ZREM', KEYS[1], id)
  local record = redis.call('HGET', KEYS[3], id)
  if record then
    redis.call('ZADD', KEYS[2], now + ARGV[2], id)
    table.insert(found, id)
    table.insert(found, record)
  else
    redis.call('ZREM', KEYS[2], id)
  end
end
return found"""
)
_FINISH: Final = """
for _, id in ipairs(ARGV) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
  redis.call('HDEL', KEYS[3], id)
end
return 0"""

_SET_ASIDE: Final = """
for _, id in ipairs(ARGV) do
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
  local data = redis.call('HGET', KEYS[3], id)
  if data then
    redis.call('HSET', KEYS[4], id, data)
    redis.call('HDEL', KEYS[3], id)
  end
end
return 0"""


# The position must not be below the first offset of what is given: Redis has lost records that come before it.
_TAKE_OVER: Final = """
local place, first = ARGV[1], tonumber(ARGV[2])
local found = redis.call('HGET', KEYS[4], place)
if first >= 0 and (not found or tonumber(found) < first) then return 0 end
local position = tonumber(found or '-1')
for i = 4, #ARGV, 4 do
  if tonumber(ARGV[i]) >= position and redis.call('HSETNX', KEYS[3], ARGV[i + 1], ARGV[i + 3]) == 1 then
    redis.call('ZADD', KEYS[1], ARGV[i + 2], ARGV[i + 1])
  end
end
if tonumber(ARGV[3]) > position then redis.call('HSET', KEYS[4], place, ARGV[3]) end
return 1"""


class RedisUnavailable(ClientError):  # noqa: N818 - says what happened
    """Redis cannot be reached, or refused a command."""

    @property
    def retriable(self) -> bool:
        """It may come back."""
        return True


class WaitingRecord(NamedTuple):
    """A record with the topic that it goes to when it is due. Without a partition its key decides."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None


class ClaimedRecord(NamedTuple):
    """A record that one worker has, until its lease ends."""

    id: bytes
    record: WaitingRecord | None
    """None if what was found is no record."""


class ArrivedRecord(NamedTuple):
    """A record of a retry topic that is to wait until `due_ms`, a time since the epoch."""

    offset: int
    id: str
    due_ms: int
    record: WaitingRecord


def encode_record(record: WaitingRecord) -> bytes:
    """The JSON that waits; any program may write it. Bytes are base64."""
    return json.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": [[name, _text(value)] for name, value in record.headers],
        }
    ).encode()


def decode_record(data: bytes) -> WaitingRecord | None:
    """The record in JSON; None for anything else."""
    try:
        found = json.loads(data)
        headers = tuple([(str(name), _bytes(value)) for name, value in found.get("headers") or []])
        partition = found.get("partition")
        if not isinstance(found["topic"], str) or not isinstance(partition, int | None):
            return None
        return WaitingRecord(found["topic"], _bytes(found.get("value")), _bytes(found.get("key")), headers, partition)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def id_of(forward: Forward) -> str:
    """The same for the same failure of a record: to put it twice, after a crash, changes nothing while it waits."""
    trail = forward.trail
    assert trail is not None, "only failed records wait"
    origin = trail.origin
    return f"{trail.pipeline}/{origin.topic}/{origin.partition}/{origin.offset}/{trail.attempts}"


class RedisQueue:
    """The waiting records of one Redis database. Belongs to the loop in which it is used."""

    def __init__(self, url: str, *, prefix: str = PREFIX, lease_s: float = LEASE_S) -> None:
        """`url` as redis-py takes it: `redis://host:6379/0`, `rediss://…` or `unix://…`."""
        try:
            import redis.asyncio as redis
            from redis.exceptions import RedisError
        except ImportError:
            raise ClientConfigError(f"{url} needs redis-py: pip install 'tidelog[redis]'") from None
        self._errors: tuple[type[Exception], ...] = (RedisError, OSError)
        try:
            self._redis: Any = redis.Redis.from_url(url)
        except ValueError as error:
            raise ClientConfigError(f"{url!r} is not the address of a Redis server: {error}") from None
        self._keys = [f"{prefix}:due", f"{prefix}:claimed", f"{prefix}:records"]
        self.unreadable_key = f"{prefix}:unreadable"
        self._positions_key = f"{prefix}:positions"
        self._lease_ms = int(lease_s * 1000)
        scripts = (_PUT, _CLAIM, _FINISH, _SET_ASIDE, _TAKE_OVER)
        self._put, self._claim, self._finish, self._set_aside, self._take_over = map(
            self._redis.register_script, scripts
        )

    async def put_records(self, records: Iterable[tuple[str, int, WaitingRecord]]) -> None:
        """Keep records under an id for so many milliseconds. An id that waits already is left as it is."""
        arguments: list[Any] = []
        for record_id, delay_ms, record in records:
            arguments += [record_id, delay_ms, encode_record(record)]
        if arguments:
            await self._run(self._put(self._keys, arguments))

    async def take_over(self, place: str, first: int | None, end: int, arrivals: Iterable[ArrivedRecord]) -> bool:
        """Store records of one partition, from the offset `first` up to `end`, and the position `end` with them.

        Records below the stored position are here, or were, and are skipped. Returns False, and changes nothing, if the
        stored position is below `first`; None is any.
        """
        arguments: list[Any] = [place, -1 if first is None else first, end]
        for each in arrivals:
            arguments += [each.offset, each.id, each.due_ms, encode_record(each.record)]
        return bool(await self._run(self._take_over([*self._keys, self._positions_key], arguments)))

    async def positions(self, places: Sequence[str]) -> list[int | None]:
        """Up to where the records of these partitions are stored; None where none ever were."""
        found = await self._run(self._redis.hmget(self._positions_key, places))
        return [None if each is None else int(each) for each in found]

    async def reset_position(self, place: str, position: int) -> None:
        """The log of this partition was cut: its next record has this offset."""
        await self._run(self._redis.hset(self._positions_key, place, position))

    async def claim(self, limit: int) -> list[ClaimedRecord]:
        """Up to `limit` due records, which no other worker gets before the lease ends."""
        found = await self._run(self._claim(self._keys, [limit, self._lease_ms]))
        return [ClaimedRecord(each, decode_record(data)) for each, data in zip(found[::2], found[1::2], strict=True)]

    async def finish(self, ids: Sequence[bytes]) -> None:
        """These are in their topics."""
        if ids:
            await self._run(self._finish(self._keys, ids))

    async def set_aside(self, ids: Sequence[bytes]) -> None:
        """These are not records: keep them under `unreadable_key`, and claim them no more."""
        if ids:
            await self._run(self._set_aside([*self._keys, self.unreadable_key], ids))

    async def waiting(self) -> tuple[int, int]:
        """How many records wait, and how many of them workers have claimed."""
        due = await self._run(self._redis.zcard(self._keys[0]))
        claimed = await self._run(self._redis.zcard(self._keys[1]))
        return int(due) + int(claimed), int(claimed)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _run(self, command: object) -> Any:
        try:
            return await cast(Awaitable[Any], command)
        except self._errors as error:
            raise RedisUnavailable(f"Redis: {error}") from error


class RedisStore:
    """The store of a retrying consumer: failed records wait in a queue."""

    def __init__(self, queue: RedisQueue) -> None:
        self._queue = queue

    async def put(self, forwards: Sequence[Forward]) -> None:
        """Keep failed records until their time."""
        await self._queue.put_records((id_of(each), each.delay_ms or 0, _waiting(each)) for each in forwards)


def _waiting(forward: Forward) -> WaitingRecord:
    return WaitingRecord(forward.topic, forward.value, forward.key, forward.headers, forward.partition)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)
