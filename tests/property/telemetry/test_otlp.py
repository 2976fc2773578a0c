"""The reader of OTLP beside random bytes, and beside messages with a byte changed: nothing but its own error."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property.effort import examples
from tests.unit.broker.telemetry.protobuf import attributes, double, fixed, gauge, metrics, part, total
from tidelog.broker.telemetry.otlp import Meaning, OtlpError, points
from tidelog.broker.telemetry.series import ClientSeries
from tidelog.metrics.exposition import page_in_pieces

TEXT = st.text(max_size=12)
VALUES = st.floats(allow_nan=False) | st.integers(-(2**63), 2**63 - 1)
POINTS = st.lists(st.tuples(VALUES, st.dictionaries(TEXT, TEXT, max_size=3)), max_size=3)
CHANGES = st.lists(st.tuples(st.integers(0), st.integers(0, 255)))
METRICS = st.lists(st.tuples(TEXT, st.sampled_from(("gauge", "total", "delta")), POINTS), max_size=4)


def encoded(found: list[tuple[str, str, list[tuple[float | int, dict[str, str]]]]]) -> bytes:
    parts = []
    for name, kind, listed in found:
        each = [
            (double(4, value) if isinstance(value, float) else fixed(6, value))
            + attributes(7, {key: part(1, text) for key, text in labels.items()})
            for value, labels in listed
        ]
        parts.append(gauge(name, *each) if kind == "gauge" else total(name, *each, is_delta=kind == "delta"))
    return metrics(parts)


@settings(max_examples=examples(100), deadline=None)
@given(METRICS)
def test_what_is_written_is_read(found: list[tuple[str, str, list[tuple[float | int, dict[str, str]]]]]) -> None:
    meanings = {"gauge": Meaning.GAUGE, "total": Meaning.TOTAL, "delta": Meaning.INCREASE}
    expected = [
        (name, meanings[kind], float(value), tuple((key, text) for key, text in labels.items() if key))
        for name, kind, listed in found
        for value, labels in listed
    ]
    assert [tuple(point) for point in points(encoded(found))] == expected


@settings(max_examples=examples(400), deadline=None)
@given(st.binary(max_size=200) | st.builds(encoded, METRICS), CHANGES)
def test_hostile_bytes_raise_the_readers_error_and_nothing_else(data: bytes, changes: list[tuple[int, int]]) -> None:
    hostile = bytearray(data)
    for place, value in changes:
        if hostile:
            hostile[place % len(hostile)] = value
    series = ClientSeries()
    with contextlib.suppress(OtlpError):
        for point in points(bytes(hostile)):
            series.add(bytes(15) + b"\2", {}, point)
    page = b"".join(page_in_pieces(series.families(), True)).decode()
    for line in page.removesuffix("\n").split("\n"):
        assert line.startswith(("#", "kafka_client_"))
        if not line.startswith("#"):
            float(line.rpartition(" ")[2])
