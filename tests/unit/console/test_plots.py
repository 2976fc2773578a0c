"""Plots are well-formed SVG, whatever the series and the label."""

from xml.etree import ElementTree as ET

import pytest

from tidelog.console.plots import area_plot, compact, sparkline
from tidelog.console.samples import Point


@pytest.mark.parametrize("values", [[0, 0], [1, 5, 3], [1e12, 0.001], [7] * 500])
def test_a_plot_is_well_formed_and_stays_inside_its_frame(values):
    series = [Point(1000.0 + at, value) for at, value in enumerate(values)]
    made = ET.fromstring(area_plot(series, 'Lag of <script>"&', "records"))
    assert '<script>"&' in made.attrib["aria-label"]
    circle = made.find("circle")
    assert circle is not None
    assert 0 <= float(circle.attrib["cy"]) <= 200
    ET.fromstring(sparkline(series, "<b>"))


@pytest.mark.parametrize("series", [[], [Point(0.0, 1.0)]])
def test_fewer_than_two_points_are_no_plot(series):
    assert "<svg" not in area_plot(series, "x", "y") + sparkline(series, "x")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.2"), (12.5, "12.5"), (999, "999"), (1000, "1k"), (2.5e6, "2.5M"), (3e9, "3G")],
)
def test_numbers_are_compact(value, text):
    assert compact(value) == text
