"""Codecs in slices say what the whole ones say, and bytes cannot make them allocate out of proportion."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compat.wire.samples import all_versions, filled
from tests.property.effort import examples
from tests.property.wire.values import QUICK, objects
from tests.unit.steps import counted, done
from tidelog.wire.errors import EncodeError, WireError
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.schema import Message

_VERSIONS = list(all_versions())
_ENCODED = [(cls, version, filled(cls, version).encode(version)) for cls, version in _VERSIONS]
_FEW = settings(
    deadline=None, database=None, derandomize=True, max_examples=examples(20), suppress_health_check=list(HealthCheck)
)
_ELEMENTS_MAX = 500
_BYTES_PER_ELEMENT = 700
"""Of an object with a dozen fields and what they refer to."""
_COUNTS = st.sampled_from(
    [b"\x7f\xff\xff\xff", b"\x00\x01\x00\x00", b"\xff\xff\xff\xff\x07", b"\xff\xff\x03", b"\xff\x7f", b"\x80\x80\x01"]
)
_FILLINGS = st.sampled_from([b"\x00", b"\x01", b"\x00\x00\x00\x01", b"\x02a\x00", b"\xff"])


@pytest.mark.parametrize(("cls", "version"), _VERSIONS, ids=lambda value: getattr(value, "__name__", f"v{value}"))
def test_slices_read_and_write_what_the_whole_does(cls: type[Message], version: int) -> None:
    @QUICK
    @given(objects(cls, version))
    def check(message: Any) -> None:
        encoded = message.encode(version)
        assert done(message.encode_in_slices(version)) == encoded
        assert done(cls.decode_in_slices(memoryview(encoded), version, 10_000)) == cls.decode(encoded, version)

    check()


@pytest.fixture(scope="module")
def compiled() -> None:
    """Every version was read once: compiling it allocates, too, and is not what is measured."""
    for cls, version, encoded in _ENCODED:
        done(cls.decode_in_slices(memoryview(encoded), version, 10_000))


@pytest.mark.usefixtures("compiled")
@_FEW
@given(st.floats(0, 1), _COUNTS, _FILLINGS)
def test_no_count_makes_more_objects_than_it_may(place: float, count: bytes, filling: bytes) -> None:
    """Anywhere in any message: a count, and behind it bytes that may be elements of it."""
    tracemalloc.start()
    try:
        for cls, version, encoded in _ENCODED:
            position = int(place * len(encoded))
            data = encoded[:position] + count + filling * 3000 + encoded[position:]
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with suppress(WireError):
                done(cls.decode_in_slices(memoryview(data), version, _ELEMENTS_MAX))
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < 8 * len(data) + _ELEMENTS_MAX * _BYTES_PER_ELEMENT, (cls.__name__, version)
    finally:
        tracemalloc.stop()


def many_topics(count: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=f"topic {number}") for number in range(count)])


def test_many_elements_are_read_and_written_in_many_steps() -> None:
    request = many_topics(10_000)
    encoded, write_steps = counted(request.encode_in_slices(12))
    decoded, read_steps = counted(MetadataRequest.decode_in_slices(encoded, 12, 10_000))
    assert decoded == request
    assert write_steps >= 10
    assert read_steps >= 10


def test_a_message_may_have_so_many_elements_and_no_more() -> None:
    encoded = many_topics(300).encode(12)
    done(MetadataRequest.decode_in_slices(encoded, 12, 300))
    with pytest.raises(WireError, match="more elements"):
        done(MetadataRequest.decode_in_slices(encoded, 12, 299))


def test_what_cannot_be_written_is_an_error_of_ours_in_slices_too() -> None:
    with pytest.raises(EncodeError, match="MetadataRequest v1"):
        done(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 40_000)]).encode_in_slices(1))
