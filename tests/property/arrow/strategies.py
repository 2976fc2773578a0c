"""Records and batches of every kind, for the properties of the Arrow kernels."""

from hypothesis import strategies as st

from tidelog.records.builder import build_batch
from tidelog.records.compression import Codec
from tidelog.records.header import TimestampType
from tidelog.records.record import Record

content = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=8)), max_size=3).map(tuple)
timestamps = st.integers(0, 2**41) | st.sampled_from([-1, 0, 2**62, -(2**61)])


@st.composite
def batches(draw: st.DrawFn, base_offset: int = 0, codecs: tuple[Codec, ...] = tuple(Codec)) -> bytes:
    """One batch with gaps between its offsets, as compaction leaves them."""
    gaps = draw(st.lists(st.integers(1, 300), min_size=1, max_size=12))
    offset = base_offset - 1
    records = []
    for gap in gaps:
        offset += gap
        records.append(
            Record(
                offset,
                draw(timestamps),
                draw(content),
                draw(content),
                draw(st.just(()) | headers),
            )
        )
    return build_batch(
        records,
        base_offset=base_offset,
        codec=draw(st.sampled_from(codecs)),
        timestamp_type=draw(st.sampled_from(TimestampType)),
        log_append_time=draw(timestamps),
        is_transactional=draw(st.booleans()),
        producer_id=draw(st.integers(-1, 3)),
    )


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Some batches one after another."""
    data = b""
    for index in range(draw(st.integers(0, 4))):
        data += draw(batches(base_offset=index * 10_000))
    return data
