"""A batch has the same fingerprint however its rows are ordered and cut, and the kernel computes what Python does."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.spark.sink import row_fingerprint
from tidelog.spark.sink.row_fingerprint import combined, fingerprint_rows, plain_sum

texts = st.none() | st.binary(max_size=20)
rows = st.lists(st.tuples(texts, texts), max_size=30)


def columns(pairs: list[tuple[bytes | None, bytes | None]]) -> tuple[pa.Array, pa.Array]:
    keys, values = (pa.array([pair[at] for pair in pairs], pa.binary()) for at in (0, 1))
    return keys, values


@given(rows, st.randoms(), st.integers(0, 30))
def test_order_and_cut_do_not_matter(pairs, random, cut) -> None:
    moved = list(pairs)
    random.shuffle(moved)
    parts = [moved[:cut], moved[cut:]]
    whole = fingerprint_rows("t", *columns(pairs), len(pairs))
    assert combined(fingerprint_rows("t", *columns(part), len(part)) for part in parts) == whole


@settings(deadline=None)  # the first call compiles
@given(rows, st.integers(0, 5))
def test_the_kernel_computes_the_plain_sum(pairs, skipped) -> None:
    keys, values = (array[min(skipped, len(array)) :] for array in columns(pairs))
    assert row_fingerprint._compiled_sum(keys, values, len(keys)) == plain_sum(keys, values, len(keys))


@given(rows.filter(bool), st.integers(0), texts)
def test_another_row_is_noticed(pairs, at, text) -> None:
    at %= len(pairs)
    other = list(pairs)
    other[at] = (pairs[at][0], text)
    is_same = fingerprint_rows("t", *columns(other), len(other)) == fingerprint_rows("t", *columns(pairs), len(pairs))
    assert is_same == (other == pairs)


def test_null_and_empty_and_topics_differ() -> None:
    found = [fingerprint_rows(topic, None, pa.array([value], pa.binary()), 1) for topic, value in
             (("a", None), ("a", b""), ("b", b""))]  # fmt: skip
    assert len(set(found)) == 3
