"""Plots of series as inline SVG, made on the server. Pure.

Colours and the size of texts come from the style sheet by class, so that plots follow the light and the dark theme and
have the same axes on every page. Nothing in a plot is text from outside but the label, which is escaped.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final

from tidelog.console.samples import Point
from tidelog.console.text import number, rate

_SIZE: Final = 100
"""The drawing's own width and height. It is stretched to its place on the page; texts stand beside it and are not."""
_INTERVALS_MAX: Final = 5
_STEP_MIN: Final = 0.01
_STEPS: Final = (1, 2, 5, 10)


def area_plot(series: Collection[Point], label: str, unit: str) -> str:
    """A plot of one series with axes; a sentence in its place while there are fewer than two points."""
    points = list(series)
    if len(points) < 2:
        return (
            f'<p class="plot-empty" role="img" aria-label="{escape(label)}: no samples yet">'
            "The first points appear after a few seconds.</p>"
        )
    highest = max(each.value for each in points)
    marks = ticks(highest, are_whole=all(float(each.value).is_integer() for each in points))
    first, last = points[0].at, points[-1].at
    span = max(last - first, 1e-9)
    places = [((each.at - first) / span * _SIZE, _SIZE - each.value / marks[-1] * _SIZE) for each in points]
    described = escape(f"{label}: {rate(points[-1].value)} {unit} now, at most {rate(highest)} {unit}")
    line, end = _path(places), places[-1]
    return "".join(
        [
            f'<figure class="plot" role="img" aria-label="{described}">',
            '<div class="plot-ticks" aria-hidden="true">',
            *(f"<span>{number(each)}</span>" for each in reversed(marks)),
            f'</div><svg viewBox="0 0 {_SIZE} {_SIZE}" preserveAspectRatio="none" aria-hidden="true">',
            *(_grid_line(_SIZE - each / marks[-1] * _SIZE) for each in marks),
            f'<path class="plot-area" d="{line} L{end[0]:.1f} {_SIZE} L0 {_SIZE}Z"/>',
            f'<path class="plot-line" d="{line}"/>',
            # A line without length has round ends that the stretching leaves round.
            f'<path class="plot-dot" d="M{end[0]:.1f} {end[1]:.1f}h0"/></svg>',
            '<div class="plot-times" aria-hidden="true">',
            *(f"<span>{_clock(at)}</span>" for at in (first, first + span / 2, last)),
            "</div></figure>",
        ]
    )


def ticks(highest: float, *, are_whole: bool) -> list[float]:
    """The marks of an axis from 0 on: multiples of 1, 2 or 5 times a power of ten, whole ones for whole values."""
    least = max(highest / _INTERVALS_MAX, 1 if are_whole or not highest else _STEP_MIN)
    power = 10.0 ** floor(log10(least))
    step = next(power * factor for factor in _STEPS if power * factor >= least * (1 - 1e-9))
    return [round(step * index, 10) for index in range(max(1, ceil(highest / step - 1e-9)) + 1)]


def sparkline(series: Collection[Point], label: str) -> str:
    """A small line without axes, for a row of a table; empty while there are fewer than two points."""
    points = list(series)[-60:]
    if len(points) < 2:
        return ""
    top = max(each.value for each in points) or 1.0
    step = 96 / (len(points) - 1)
    places = [(2 + index * step, 22 - each.value / top * 18) for index, each in enumerate(points)]
    return (
        f'<svg class="spark" viewBox="0 0 100 24" role="img" aria-label="{escape(label)}">'
        f'<path class="plot-line" d="{_path(places)}"/></svg>'
    )


def _grid_line(y: float) -> str:
    return f'<path class="plot-grid" d="M0 {y:.1f}H{_SIZE}"/>'


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def _path(places: Sequence[tuple[float, float]]) -> str:
    """Straight lines; of points on a level line, those in close succession are left out."""
    kept = [places[0]]
    kept += [here for before, here in pairwise(places) if here[0] - kept[-1][0] >= 0.5 or here[1] != before[1]]
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in kept)
