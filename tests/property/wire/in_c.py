"""Calls the C decoder alone, and says what Python reads, so that tests can compare the two."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st

from tidelog.wire import spans
from tidelog.wire.errors import WireError
from tidelog.wire.primitives import Buffer

Edit = tuple[int, int, bool]
"""A place, a byte, and whether the byte is inserted there."""
edits: st.SearchStrategy[list[Edit]] = st.lists(
    st.tuples(st.integers(0, 2**16), st.integers(0, 255), st.booleans()), max_size=4
)
needs_c = pytest.mark.skipif(spans._decode_rows is None, reason="the C module was not built")


def read_in_c(decoder: spans.RowDecoder[Any], data: Buffer, start: int, end: int, version: int) -> object:
    """The row, or None for a request that is left to Python."""
    program = decoder._make_program(version)
    assert program is not None, "every version of a hot request has a program"
    return spans._decode_rows(data, start, end, program)


def read_in_python(decoder: spans.RowDecoder[Any], data: Buffer, start: int, end: int, version: int) -> object:
    """The row, or that there is none."""
    try:
        return decoder.decode_in_python(data, start, end, version)
    except WireError:
        return "refused"


def c_and_python_agree(
    decoder: spans.RowDecoder[Any],
    body: bytes,
    version: int,
    before: bytes,
    after: bytes,
    cut: int,
    changes: list[Edit],
) -> object:
    """Whole, cut off, and with bytes changed, inserted and followed by others: what C reads of it."""
    changed = bytearray(body)
    for where, byte, is_inserted in changes:
        place = where % (len(changed) + 1)
        if is_inserted:
            changed.insert(place, byte)
        elif place < len(changed):
            changed[place] = byte
    start, end = len(before), len(before) + max(0, len(changed) - cut)
    data = bytearray(before + changed + after)
    found = read_in_c(decoder, data, start, end, version)
    assert found is None or found == read_in_python(decoder, data, start, end, version)
    assert read_in_c(decoder, memoryview(data), start, end, version) == found
    return found
