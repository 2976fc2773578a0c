"""Random histories of a compacted partition, and what ought to be left of one."""

from typing import NamedTuple

from hypothesis import strategies as st

from tidelog.records.compression import Codec

KEYS = [b"a", b"b", b"c", b"d", b"", b"key" * 9]


class Append(NamedTuple):
    """A batch: pairs of a key and a value, None for a tombstone."""

    pairs: list[tuple[bytes | None, bytes | None]]
    codec: Codec
    producer: int
    """-1 for none; 0 and 1 are idempotent, 2 and 3 write in transactions."""
    age_ms: int


class EndTransaction(NamedTuple):
    """A marker for a producer's transaction, if one is open."""

    producer: int
    is_commit: bool


class Roll(NamedTuple):
    """A new segment begins."""


class Clean(NamedTuple):
    """Time passes, then the log is cleaned."""

    after_ms: int


Step = Append | EndTransaction | Roll | Clean

values = st.one_of(st.none(), st.binary(max_size=4), st.binary(min_size=90, max_size=110))
pairs = st.lists(st.tuples(st.sampled_from(KEYS), values), min_size=1, max_size=6)
appends = st.builds(
    Append,
    pairs,
    st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY]),
    st.sampled_from([-1, -1, -1, 0, 1, 2, 2, 3]),
    st.integers(0, 200),
)
ends = st.builds(EndTransaction, st.sampled_from([2, 3]), st.booleans())
cleans = st.builds(Clean, st.sampled_from([0, 1, 50, 100, 150]))
histories = st.lists(
    st.one_of(appends, appends, appends, appends, ends, st.builds(Roll), cleans), min_size=1, max_size=40
)
