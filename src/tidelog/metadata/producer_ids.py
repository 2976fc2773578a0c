"""Producer ids: each broker takes them from the tree a block at a time and hands them out one by one.

Ids are never given out twice, whatever happens: a block is taken by compare-and-set before its first id is used, and
the unused rest of a stopped broker's block is lost. There are 2^63 ids.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from tidelog.metadata import paths
from tidelog.metadata.errors import BadVersionError
from tidelog.metadata.store import Store
from tidelog.metadata.tree import ProducerIdBlock, decode_producer_id_block, encode_producer_id_block
from tidelog.metadata.walk import ensure_paths
from tidelog.wire.errors import ApiError, ErrorCode

BLOCK_SIZE: Final = 1000
ADOPTION_GAP: Final = 2**32
"""How far above the ids of adopted logs allocation goes on. Ids of producers that expired from every snapshot, and ids
that Kafka allocates when the directory is moved back to it, stay below."""
_LEFT_MIN: Final = 100
"""With so few ids left the next block is taken."""
_ID_MAX: Final = 2**63 - 1
_ADOPTED_ID_MAX: Final = 2**62
"""Ids above this were made up by a client. Allocation does not get there, and must not be pushed to its end."""


def take_block(store: Store, broker_id: int) -> ProducerIdBlock:
    """Take the next block of ids for a broker."""
    while True:
        ensure_paths(store, [paths.PRODUCER_ID_BLOCK])
        data, stat = store.get(paths.PRODUCER_ID_BLOCK)
        first = decode_producer_id_block(data).last + 1 if data else 0
        if first > _ID_MAX - BLOCK_SIZE + 1:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no producer ids are left after {first - 1}")
        block = ProducerIdBlock(broker_id, first, first + BLOCK_SIZE - 1)
        try:
            store.set(paths.PRODUCER_ID_BLOCK, encode_producer_id_block(block), stat.version)
        except BadVersionError:
            continue  # another broker took that block: try the one after it
        return block


def stay_above(store: Store, broker_id: int, producer_id: int) -> bool:
    """Never allocate `producer_id` or a smaller one. Returns whether the next block moved. For start-up.

    Logs may hold ids that this tree has not allocated: adopted logs do, and so do logs whose tree was damaged.
    """
    ensure_paths(store, [paths.PRODUCER_ID_BLOCK])
    data, stat = store.get(paths.PRODUCER_ID_BLOCK)
    producer_id = min(producer_id, _ADOPTED_ID_MAX)
    if producer_id <= (decode_producer_id_block(data).last if data else -1):
        return False
    last = (producer_id + ADOPTION_GAP) // BLOCK_SIZE * BLOCK_SIZE - 1
    # The block counts as used up: the next one begins behind it.
    used = ProducerIdBlock(broker_id, last - BLOCK_SIZE + 1, last)
    store.set(paths.PRODUCER_ID_BLOCK, encode_producer_id_block(used), stat.version)
    return True


class ProducerIdAllocator:
    """Allocates producer ids for one broker.

    The next block is taken before the last id of this one is used, so that a request seldom waits for it.
    """

    def __init__(self, take: Callable[[], Awaitable[ProducerIdBlock]]) -> None:
        """`take` is `take_block`, bound to a store and a broker."""
        self._take = take
        self._next = 0
        self._last = -1
        self._following: ProducerIdBlock | None = None
        self._taking: asyncio.Task[None] | None = None

    def prefetch(self) -> None:
        """Begin to take the first block: producers that come while the tree is away then get ids, too."""
        if self._next > self._last and self._following is None:
            self._take_following()

    def close(self) -> None:
        """Stop waiting for a block."""
        if self._taking is not None:
            self._taking.cancel()

    @property
    def has_id(self) -> bool:
        """Whether `next_id` has an id to give now."""
        return self._next <= self._last or self._following is not None

    async def ready(self) -> None:
        """Return once `next_id` has an id to give, if it is called before anything else is awaited."""
        while not self.has_id:
            await asyncio.shield(self._take_following())

    def next_id(self) -> int:
        """An id that was never given out. Await `ready` first."""
        if self._next > self._last:
            block, self._following = self._following, None
            assert block is not None, "`next_id` was called without awaiting `ready`"
            self._next, self._last = block.first, block.last
        producer_id = self._next
        self._next += 1
        if self._last - self._next < _LEFT_MIN and self._following is None:
            self._take_following()
        return producer_id

    def _take_following(self) -> asyncio.Task[None]:
        """Begin to take the following block, unless that is under way."""
        if self._taking is None:
            self._taking = asyncio.get_running_loop().create_task(self._take_block())
            self._taking.add_done_callback(_retrieved)
        return self._taking

    async def _take_block(self) -> None:
        try:
            self._following = await self._take()
        finally:
            self._taking = None


def _retrieved(task: asyncio.Task[None]) -> None:
    """Requests that wait for the block get its error; otherwise the next request that needs a block retries."""
    if not task.cancelled():
        task.exception()
