"""Producer ids: each broker takes them from the tree a block at a time and hands them out one by one.

Ids are never given out twice, whatever happens: a block is taken by compare-and-set before its first id is used, and
what a stopped broker had left of its block is lost. 2^63 ids last.
"""

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
_ID_MAX: Final = 2**63 - 1
_ADOPTED_ID_MAX: Final = 2**62
"""Ids above this were made up by a client. Allocation does not get there, and must not be pushed to its end."""


class ProducerIdAllocator:
    """Allocates producer ids for one broker."""

    def __init__(self, store: Store, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._last = -1

    def next_id(self) -> int:
        """An id nobody has. Every thousandth call takes a new block and may wait for the store."""
        if self._next > self._last:
            block = self._take_block()
            self._next, self._last = block.first, block.last
        producer_id = self._next
        self._next += 1
        return producer_id

    def stay_above(self, producer_id: int) -> bool:
        """Never allocate `producer_id` or a smaller one; whether that changes what comes next. Call it at start-up.

        Logs may hold ids that this tree has not allocated: adopted logs do, and so do logs whose tree was damaged.
        """
        ensure_paths(self._store, [paths.PRODUCER_ID_BLOCK])
        data, stat = self._store.get(paths.PRODUCER_ID_BLOCK)
        producer_id = min(producer_id, _ADOPTED_ID_MAX)
        if producer_id <= (decode_producer_id_block(data).last if data else -1):
            return False
        last = (producer_id + ADOPTION_GAP) // BLOCK_SIZE * BLOCK_SIZE - 1
        # The block counts as used up: the next one begins behind it.
        used = ProducerIdBlock(self._broker_id, last - BLOCK_SIZE + 1, last)
        self._store.set(paths.PRODUCER_ID_BLOCK, encode_producer_id_block(used), stat.version)
        return True

    def _take_block(self) -> ProducerIdBlock:
        while True:
            ensure_paths(self._store, [paths.PRODUCER_ID_BLOCK])
            data, stat = self._store.get(paths.PRODUCER_ID_BLOCK)
            first = decode_producer_id_block(data).last + 1 if data else 0
            if first > _ID_MAX - BLOCK_SIZE + 1:
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"no producer ids are left after {first - 1}")
            block = ProducerIdBlock(self._broker_id, first, first + BLOCK_SIZE - 1)
            try:
                self._store.set(paths.PRODUCER_ID_BLOCK, encode_producer_id_block(block), stat.version)
            except BadVersionError:
                continue  # another broker took that block: try the one after it
            return block
