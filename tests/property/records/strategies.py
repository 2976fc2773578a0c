"""Records and batches for Hypothesis."""

from hypothesis import strategies as st

from tidelog.records.compression import Codec
from tidelog.records.record import Record

NOW_MS = 1_700_000_000_000

blobs = st.one_of(
    st.binary(max_size=80), st.builds(lambda unit, count: unit * count, st.binary(max_size=9), st.integers(0, 60))
)
maybe_blobs = st.one_of(st.none(), blobs)
header_lists = st.lists(st.tuples(st.text(max_size=12), st.one_of(st.none(), st.binary(max_size=40))), max_size=3).map(
    tuple
)
timestamps = st.one_of(st.integers(NOW_MS - 10_000, NOW_MS + 10_000), st.integers(0, 2**62))
codecs = st.sampled_from(Codec)
legacy_codecs = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])


@st.composite
def record_lists(
    draw: st.DrawFn,
    *,
    base_offset: int = 0,
    min_size: int = 1,
    max_size: int = 20,
    with_headers: bool = True,
    times: st.SearchStrategy[int] = timestamps,
) -> list[Record]:
    """Records with consecutive offsets from `base_offset` on."""
    bodies = draw(
        st.lists(
            st.tuples(times, maybe_blobs, maybe_blobs, header_lists if with_headers else st.just(())),
            min_size=min_size,
            max_size=max_size,
        )
    )
    return [Record(base_offset + index, *body) for index, body in enumerate(bodies)]
