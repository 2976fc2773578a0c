"""Plots are well-formed SVG, whatever the series and the label."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.console.plots import area_plot, sparkline, ticks
from tidelog.console.samples import Point
from tidelog.console.text import number


@pytest.mark.parametrize("values", [[0, 0], [1, 5, 3], [1e12, 0.001], [7] * 500])
def test_a_plot_is_well_formed_and_stays_inside_its_frame(values):
    series = [Point(1000.0 + at, value) for at, value in enumerate(values)]
    made = ET.fromstring(area_plot(series, 'Lag of <script>"&', "records"))
    assert '<script>"&' in made.attrib["aria-label"]
    for path in made.iter("path"):
        places = [float(each) for each in re.findall(r"-?[0-9.]+", path.attrib["d"])]
        assert all(-0.1 <= each <= 100.1 for each in places)
    ET.fromstring(sparkline(series, "<b>"))


@pytest.mark.parametrize("series", [[], [Point(0.0, 1.0)]])
def test_fewer_than_two_points_are_no_plot(series):
    assert "<svg" not in area_plot(series, "x", "y") + sparkline(series, "x")


@pytest.mark.parametrize(
    ("highest", "are_whole", "expected"),
    [
        (0.8, False, [0, 0.2, 0.4, 0.6, 0.8]),
        (1, False, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.31, False, [0, 0.1, 0.2, 0.3, 0.4]),
        (7, False, [0, 2, 4, 6, 8]),
        (2400, False, [0, 500, 1000, 1500, 2000, 2500]),
        (0, False, [0, 1]),
        (0, True, [0, 1]),
        (1, True, [0, 1]),
        (3, True, [0, 1, 2, 3]),
        (5e9, True, [0, 1e9, 2e9, 3e9, 4e9, 5e9]),
    ],
)
def test_an_axis_has_marks_at_round_numbers(highest, are_whole, expected):
    assert ticks(highest, are_whole=are_whole) == expected


@given(st.floats(0, 1e15), st.booleans())
def test_the_highest_value_is_below_the_last_mark_and_the_texts_are_exact(highest, are_whole):
    marks = ticks(highest, are_whole=are_whole)
    assert 2 <= len(marks) <= 6
    assert marks[-1] >= highest * (1 - 1e-9)
    texts = [float(number(each).replace(",", "")) for each in marks]
    assert texts == pytest.approx([marks[1] * index for index in range(len(marks))])


def test_an_axis_is_written_as_text_that_no_drawing_stretches():
    made = ET.fromstring(area_plot([Point(0.0, 0), Point(60.0, 1500)], "x", "y"))
    assert [each.text for each in made.iter("span")] == [
        "1,500",
        "1,000",
        "500",
        "0",
        "00:00:00",
        "00:00:30",
        "00:01:00",
    ]
    assert list(made.iter("text")) == []
