"""Which dead letters were sent back, as committed offsets of groups: a position, and what was sent behind it.

The position of a partition is its first letter that was kept. Letters behind it that were sent are bits in the metadata
of further groups, `<group>@<window>`, each for a window of offsets: so many bits as the metadata of an offset can hold.
Letters that a filter leaves out need not be touched, however many they are. No Spark.
"""

import base64
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidelog.client.admin import Admin
from tidelog.client.types import OffsetAndMetadata, TopicPartition

WINDOW_OFFSETS: Final = 20_000
"""Their bits take 3,400 characters at most: `offset.metadata.max.bytes` is 4,096."""

Positions = dict[str, dict[TopicPartition, OffsetAndMetadata]]
"""What is to be committed, by group."""


class ReplayProgress:
    """What has been sent of one dead-letter topic. Not shared: a replay holds a transactional id meanwhile."""

    def __init__(self, topic: str, group_id: str) -> None:
        self._topic = topic
        self._group_id = group_id
        self._position: dict[int, int] = {}
        self._sent: dict[int, set[int]] = defaultdict(set)
        self._first_kept: dict[int, int] = {}

    def load(self, client: Mapping[str, Any], spans: Mapping[int, tuple[int, int]]) -> None:
        """Read what is committed about the letters in `spans`."""
        with Admin(dict(client)) as admin:
            for group_id in self.groups(spans):
                self.take(group_id, admin.list_consumer_group_offsets(group_id, require_stable=True))

    def groups(self, spans: Mapping[int, tuple[int, int]]) -> list[str]:
        """The groups whose offsets say what was sent of the letters in `spans`."""
        windows = {
            window
            for start, end in spans.values()
            for window in range(start // WINDOW_OFFSETS, max(start, end - 1) // WINDOW_OFFSETS + 1)
        }
        return [self._group_id, *(self._group_of(window) for window in sorted(windows))]

    def take(self, group_id: str, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """What one of the groups has committed."""
        window = group_id.removeprefix(self._group_id).removeprefix("@")
        for where, place in committed.items():
            if where.topic == self._topic and window:
                self._sent[where.partition].update(_offsets(int(window), place.metadata))
            elif where.topic == self._topic:
                self._position[where.partition] = place.offset

    def rest(self, spans: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        """The spans from the positions on: before them every letter was sent."""
        moved = {each: (max(start, self._position.get(each, 0)), end) for each, (start, end) in spans.items()}
        return {each: (start, end) for each, (start, end) in moved.items() if start < end}

    def unsent(self, spans: Mapping[int, tuple[int, int]]) -> int:
        """How many offsets of `spans` no replay has sent or passed."""
        return sum(
            end - start - sum(start <= offset < end for offset in self._sent[partition])
            for partition, (start, end) in self.rest(spans).items()
        )

    def was_sent(self, partition: int, offset: int) -> bool:
        """Whether a letter was sent back before, in this replay or in an earlier one."""
        return offset < self._position.get(partition, 0) or offset in self._sent[partition]

    def note_sent(self, partition: int, offset: int) -> None:
        """A letter is sent in the current transaction."""
        if offset >= self._position.get(partition, 0):
            self._sent[partition].add(offset)

    def note_kept(self, partition: int, offset: int) -> None:
        """A letter stays. Letters are noted in the order of their offsets."""
        if not self.was_sent(partition, offset):
            self._first_kept.setdefault(partition, offset)

    def positions(self, reached: Mapping[int, int]) -> Positions:
        """What to commit when every letter before `reached` is sent or kept."""
        first: dict[TopicPartition, OffsetAndMetadata] = {}
        windows: dict[int, dict[TopicPartition, OffsetAndMetadata]] = defaultdict(dict)
        for partition, end in reached.items():
            where = TopicPartition(self._topic, partition)
            position = self._first_kept.get(partition, max(end, self._position.get(partition, 0)))
            first[where] = OffsetAndMetadata(position)
            # Windows of earlier replays are written again: offsets that are not committed for long expire.
            behind = sorted(offset for offset in self._sent[partition] if offset > position)
            for window, bits in _windows(behind).items():
                windows[window][where] = OffsetAndMetadata(position, bits)
        return {self._group_id: first, **{self._group_of(window): found for window, found in windows.items()}}

    def _group_of(self, window: int) -> str:
        return f"{self._group_id}@{window}"


def committed_positions(client: Mapping[str, Any], topic: str, group_id: str) -> dict[int, int]:
    """The positions of a topic's partitions that a group has committed."""
    with Admin(dict(client)) as admin:
        offsets = admin.list_consumer_group_offsets(group_id, require_stable=True)
    return {each.partition: place.offset for each, place in offsets.items() if each.topic == topic}


def _windows(offsets: Iterable[int]) -> dict[int, str]:
    bits: dict[int, int] = defaultdict(int)
    for offset in offsets:
        bits[offset // WINDOW_OFFSETS] |= 1 << offset % WINDOW_OFFSETS
    size = WINDOW_OFFSETS // 8 + 1
    return {
        window: base64.b64encode(zlib.compress(each.to_bytes(size, "little"))).decode() for window, each in bits.items()
    }


def _offsets(window: int, metadata: str) -> set[int]:
    try:
        bits = int.from_bytes(zlib.decompress(base64.b64decode(metadata, validate=True)), "little")
    except (ValueError, zlib.error):
        return set()
    start = window * WINDOW_OFFSETS
    return {start + number for number in range(WINDOW_OFFSETS) if bits >> number & 1}
