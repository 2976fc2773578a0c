"""OTLP metrics as clients write them, and as they never do."""

from __future__ import annotations

import pytest

from tests.unit.broker.telemetry.protobuf import attributes, double, fixed, gauge, metrics, number, part, total
from tidelog.broker.telemetry.otlp import ATTRIBUTES_MAX, Meaning, OtlpError, Point, points


def test_gauges_and_totals_are_read_with_what_they_mean() -> None:
    data = metrics(
        [
            gauge("g", double(4, 1.5), fixed(6, -3)),
            total("t", fixed(6, 7)),
            total("i", fixed(6, 8), is_delta=True),
            total("c", fixed(6, 9), is_delta=True, is_monotonic=False),
            total("u", fixed(6, 10), is_monotonic=False),
        ]
    )
    assert list(points(data)) == [
        Point("g", Meaning.GAUGE, 1.5, ()),
        Point("g", Meaning.GAUGE, -3.0, ()),
        Point("t", Meaning.TOTAL, 7.0, ()),
        Point("i", Meaning.INCREASE, 8.0, ()),
        Point("c", Meaning.CHANGE, 9.0, ()),
        Point("u", Meaning.GAUGE, 10.0, ()),
    ]


def test_attributes_of_the_resource_and_the_point_are_texts() -> None:
    values = {"s": part(1, "é"), "b": number(2, 1), "i": number(3, -5), "d": double(4, 0.5), "list": part(5, b"")}
    data = metrics([gauge("g", double(4, 1), attributes(7, {"node": number(3, 7)}))][:1], {"rack": part(1, "r1")})
    assert [point.attributes for point in points(data)] == [(("rack", "r1"),)]
    data = metrics([gauge("g", double(4, 1) + attributes(7, values))])
    assert [dict(point.attributes) for point in points(data)] == [{"s": "é", "b": "true", "i": "-5", "d": "0.5"}]


def test_what_is_not_known_is_skipped() -> None:
    histogram = part(2, part(1, "h"), part(9, part(1, double(4, 1.0))))
    unknown = number(99, 1) + part(98, b"x") + double(97, 1.0) + b"\x85\x06abcd"
    data = unknown + metrics([histogram, gauge("g", unknown + double(4, 2.0), number(8, 1))])
    assert [(point.name, point.value) for point in points(data)] == [("g", 2.0)]


def test_long_texts_are_cut_and_attributes_are_counted() -> None:
    many = attributes(7, {f"a{index}": part(1, "é" * 300) for index in range(ATTRIBUTES_MAX + 9)})
    (point,) = points(metrics([gauge("é" * 300, double(4, 1.0) + many)]))
    assert point.name == "é" * 127
    assert len(point.attributes) == ATTRIBUTES_MAX
    assert point.attributes[0][1] == "é" * 127


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",
        b"\x0a\x05\x00",
        b"\xff" * 11,
        b"\x0b",
        b"\x02\x00",
        metrics([gauge("g", double(4, 1.0)[:-1])]),
        metrics([gauge("g")])[:-1],
        part(1, part(2, part(2, part(1, b"\xff\xfe"), part(5, part(1, double(4, 1.0)))))),
    ],
)
def test_malformed_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(OtlpError):
        list(points(data))
